# SPDX-License-Identifier: Apache-2.0
"""Random kernels that record what self_counting.py's do: loops of every stride, up, down, halved
and doubled, in each other and under conditions on the launch and on the loops around."""

import sys
from random import Random

from self_counting import MACROS, run

VALUES = ["n", "m", "X", "Y", "(int)get_local_id(0)", "(n - X)", "(X & 7)", "X / 3", "5"]
STEPS = ["1", "3", "m", "(Y + 1)", "((X & 3) + 1)", "(int)get_local_size(0)"]


class Kernel:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loops = 0
        self.text = f"kernel void k{seed}(global int *record, int n, int m) {{ {self.block(3)} }}"

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def block(self, depth: int) -> str:
        return " ".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def condition(self) -> str:
        names = [*VALUES, *self.inside]
        less = "<", ">=", "<=", ">"
        return f"{self.one(*names)} {self.one(*less, '==', '!=')} {self.one(*VALUES)}"

    inside: tuple[str, ...] = ()  # variables of the loops around

    def statement(self, depth: int) -> str:
        kind = self.one("note", "if", "else", "up", "down", "halved", "doubled", "do", "barrier")
        if depth == 0 or kind == "note" or len(self.inside) > 1:
            return "NOTE;"
        if kind == "barrier":
            return "barrier(CLK_LOCAL_MEM_FENCE);" if depth == 3 else "NOTE;"
        if kind == "if":
            return f"if ({self.condition()}) {{ {self.block(depth - 1)} }}"
        if kind == "else":
            sides = self.block(depth - 1), self.block(depth - 1)
            return f"if ({self.condition()}) {{ {sides[0]} }} else {{ NOTE; {sides[1]} }}"
        return self.loop(kind, depth)

    def body(self, v: str, depth: int) -> str:
        around, self.inside = self.inside, (*self.inside, v)
        text = self.one("NOTE;", self.block(depth - 1))
        self.inside = around
        return text

    def loop(self, kind: str, depth: int) -> str:
        self.loops += 1
        v, type_ = f"v{self.loops}", self.one("int", "uint", "long")
        values = [value for value in VALUES if type_ != "uint" or value != "(n - X)"]
        start, end, step = (self.random.choice(of) for of in (values, values, STEPS))
        less, more, body = self.one("<", "<="), self.one(">", ">="), self.body(v, depth)
        if kind == "up":
            return f"for ({type_} {v} = {start}; {v} {less} {end}; {v} += {step}) {{ {body} }}"
        if kind == "down":
            type_ = self.one("int", "long")
            return f"for ({type_} {v} = {start}; {v} {more} {end}; {v} -= {step}) {{ {body} }}"
        if kind == "do":
            return f"int {v} = {start}; do {{ {body} {v} += {step}; }} while ({v} < {end});"
        head = f"{v} = 1; {v} < {self.one('n', 'X', '60')}; {v} {self.one('<<= 1', '*= 2', '*= 3')}"
        if kind == "halved":
            start, half = self.one("n", "X & 63"), self.one(">>= 1", "/= 2", "/= 3")
            head = f"{v} = {start}; {v} > 0; {v} {half}"
        if self.random.random() < 0.3:
            self.inside = (*self.inside, v)
            body += f" if ({self.condition()}) break; NOTE;"
            self.inside = self.inside[:-1]
        return f"for (int {head}) {{ {body} }}"


def main() -> None:
    seeds = range(int(sys.argv[1]), int(sys.argv[2]))
    source = MACROS + "\n".join(Kernel(seed).text for seed in seeds)
    shapes = [((128,), (32,), (23, 2)), ((24, 6), (12, 3), (40, 5)), ((50,), (25,), (7, 1))]
    run(source, [(f"k{seed}", size, local, None, m) for seed in seeds for size, local, m in shapes])


if __name__ == "__main__":
    main()
