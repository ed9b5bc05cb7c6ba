# SPDX-License-Identifier: Apache-2.0
"""Random control flow: every marked place of a made-up kernel has its exact count in every warp.

A generator makes a syntax tree; one walk prints it as OpenCL C, another runs it in Python for every
work-item. Places are marked by an atomic increment, which no compiler may move, merge or drop, so
each place lies in a block whose counts must equal its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.support.clinst import WARP, Device, instrument

pytestmark = pytest.mark.opencl
KERNELS = int(os.environ.get("XPUPROF_RANDOM_KERNELS", "8"))
SEEN_WRONG = 777088
"""Seed of a kernel without barriers into whose loops PoCL put some, for the one that ends the
counting: other work-items took its branches."""
EARLY = [2148, 3007, 3013, 3014]
"""Seeds of kernels whose groups return early. In the first, whose own barriers are never reached,
groups took the branches of others when there was a barrier at the joint end."""
DEPTH = 3
LOCAL = 48


class Left(Exception):
    """Control leaves a construct: break, continue or return."""

    def __init__(self, how: str) -> None:
        self.how = how


class Tree:
    """One random kernel. Variables: a, b change; i is the work-item; n the argument.

    Barriers are placed where the whole group passes; then nothing leaves a construct early, but
    whole groups may return (`early`).
    """

    def __init__(self, seed: int, barriers: bool, early: bool = False) -> None:
        self.random = Random(seed)
        self.barriers = barriers
        self.early = early
        self.marks = 0
        self.loops = 0
        self.body = self.block(DEPTH, loop=False, together=True)

    def block(self, depth: int, loop: bool, together: bool) -> list[Any]:
        weights = {"mark": 4.0, "assign": 3.0}
        if depth > 0:
            weights |= {"if": 2, "ifelse": 2, "for": 1.5, "triangle": 0.7, "while": 1, "switch": 1}
        if self.barriers and together:
            weights["barrier"] = 1.5
        elif depth > 0 and not self.barriers:
            weights["leave"] = 0.5
        count = self.random.randint(1, 4)
        chosen = self.random.choices(list(weights), list(weights.values()), k=count)
        made = [self.statement(kind, depth - 1, loop, together) for kind in chosen]
        if self.early and together and not loop and depth >= DEPTH - 1:
            made = self.with_return(made)
        return made

    def with_return(self, block: list[Any]) -> list[Any]:
        """Mostly, some groups return within the block."""
        if self.random.random() >= 0.8:
            return block
        k, at = self.random.randint(2, 7), self.random.randint(0, len(block))
        marks = [self.mark() for _ in range(self.random.randint(0, 1))]
        some = (f"in[get_group_id(0)] > {k}", lambda s: s["in"][s["i"] // LOCAL] > k)
        return [*block[:at], ("if", some, [*marks, ("leave", "return")]), *block[at:]]

    def condition(self, together: bool) -> tuple[str, Any]:
        k, m = self.random.randint(2, 5), self.random.randint(0, 2)
        if together:
            return (f"n > {k}", lambda s: s["n"] > k)
        return self.random.choice(
            [
                (f"a % {k} == {m}", lambda s: s["a"] % k == m),
                (f"b % {k} > {m}", lambda s: s["b"] % k > m),
                (f"i % {k} < {m + 1}", lambda s: s["i"] % k < m + 1),
                (f"n > {k}", lambda s: s["n"] > k),
                (f"in[(i + a) % 64] > {k}", lambda s: s["in"][(s["i"] + s["a"]) % 64] > k),
            ]
        )

    def mark(self) -> tuple[str, int]:
        self.marks += 1
        return ("mark", self.marks - 1)

    def statement(self, kind: str, depth: int, loop: bool, together: bool) -> Any:
        random = self.random
        together = together and random.random() < 0.5
        if kind == "mark":
            return self.mark()
        if kind == "barrier":
            return (kind,)
        if kind == "assign":
            return ("assign", random.choice("ab"), random.randint(1, 7), random.choice("abin"))
        if kind == "if":
            then = [self.mark(), *self.block(depth, loop, together)]
            return (kind, self.condition(together), then)
        if kind == "ifelse":
            sides = [self.block(depth, loop, together) for _ in range(2)]
            return (kind, self.condition(together), *sides)
        if kind in ("for", "triangle", "while"):
            self.loops += 1
            name = f"v{self.loops}"
            bound = random.choice(["3", "n"] if together else ["3", "n", "(i & 3)", "(a & 3)"])
            if kind == "triangle":
                inner = ("for", f"v{self.loops}i", name, [self.mark()])
                return ("for", name, bound, [inner, self.mark()])
            if kind == "for":
                return (kind, name, bound, [self.mark(), *self.block(depth, True, together)])
            body = [self.mark(), *self.block(depth, True, False)]
            return (kind, name, self.condition(False), body)
        if kind == "switch":
            cases = random.sample(range(6), random.randint(1, 4))
            return (
                kind,
                [
                    (value, self.block(depth, False, False), random.random() < 0.3)
                    for value in cases
                ],
                self.block(depth, False, False),
            )
        how = random.choice(["break", "continue", "return"] if loop else ["return"])
        return ("if", self.condition(False), [self.mark(), ("leave", how)])

    def source(self, name: str) -> str:
        out = [f"kernel void {name}(global const int *in, global int *out, int n) {{"]
        out.append("int i = get_global_id(0); uint a = in[i % 64], b = i;")
        self.emit(self.body, out)
        out.append("out[i + 1024] = a + b; }")
        return "\n".join(out)

    def emit(self, block: list[Any], out: list[str]) -> None:
        for statement in block:
            match statement:
                case ("mark", number):
                    out.append(f"atomic_inc(&out[{number}]);")
                case ("assign", name, factor, other):
                    value = {"i": "i", "n": "n"}.get(other, other)
                    out.append(f"{name} = ({name} * {factor}u + {value}) % 64;")
                case ("if", (text, _), then):
                    out.append(f"if ({text}) {{")
                    self.emit(then, out)
                    out.append("}")
                case ("ifelse", (text, _), then, otherwise):
                    out.append(f"if ({text}) {{")
                    self.emit(then, out)
                    out.append("} else {")
                    self.emit(otherwise, out)
                    out.append("}")
                case ("for", name, bound, body):
                    out.append(f"for (int {name} = 0, e = {bound}; {name} < e; {name}++) {{")
                    self.emit(body, out)
                    out.append("}")
                case ("while", name, (text, _), body):
                    out.append(f"int {name} = 0; while ({name}++ < 5 && {text}) {{")
                    self.emit(body, out)
                    out.append("}")
                case ("switch", cases, otherwise):
                    out.append("switch (a % 6) {")
                    for value, body, falls in cases:
                        out.append(f"case {value}: {{")
                        self.emit(body, out)
                        out.append("}" if falls else "} break;")
                    out.append("default: {")
                    self.emit(otherwise, out)
                    out.append("} }")
                case ("barrier",):
                    out.append("barrier(CLK_LOCAL_MEM_FENCE);")
                case ("leave", how):
                    out.append(f"{how};")

    def run(self, i: int, data: list[int], n: int) -> tuple[np.ndarray, int]:
        state: dict[str, Any] = {"i": i, "a": data[i % 64], "b": i, "n": n, "in": data}
        counts = np.zeros(self.marks, int)
        try:
            self.walk(self.body, state, counts)
        except Left:
            return counts, 0
        return counts, state["a"] + state["b"]

    def walk(self, block: list[Any], s: dict[str, Any], counts: np.ndarray) -> None:
        for statement in block:
            match statement:
                case ("mark", number):
                    counts[number] += 1
                case ("assign", name, factor, other):
                    s[name] = (s[name] * factor + s[other]) % 64
                case ("if", (_, holds), then):
                    if holds(s):
                        self.walk(then, s, counts)
                case ("ifelse", (_, holds), then, otherwise):
                    self.walk(then if holds(s) else otherwise, s, counts)
                case ("for", name, bound, body):
                    known = {"3": 3, "n": s["n"], "(i & 3)": s["i"] & 3, "(a & 3)": s["a"] & 3}
                    for value in range(known[bound] if bound in known else s[bound]):
                        s[name] = value
                        if self.left_loop(body, s, counts):
                            break
                case ("while", _, (_, holds), body):
                    for _ in range(5):
                        if not holds(s) or self.left_loop(body, s, counts):
                            break
                case ("switch", cases, otherwise):
                    at = [value for value, _, _ in cases]
                    value = s["a"] % 6
                    start = at.index(value) if value in at else len(cases)
                    for _, body, falls in cases[start:]:
                        self.walk(body, s, counts)
                        if not falls:
                            break
                    else:
                        self.walk(otherwise, s, counts)
                case ("leave", how):
                    raise Left(how)

    def left_loop(self, body: list[Any], s: dict[str, Any], counts: np.ndarray) -> bool:
        try:
            self.walk(body, s, counts)
        except Left as left:
            if left.how == "return":
                raise
            return left.how == "break"
        return False


@pytest.mark.parametrize("barriers", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
def test_every_place_is_counted_exactly(tmp_path: Path, barriers: bool, in_memory: bool) -> None:
    """GIVEN random kernels WHEN their counters are registers, or in memory THEN each marked place's
    per-warp counts are those of a block."""
    first = int(os.environ.get("XPUPROF_RANDOM_SEED", "0"))
    seeds = [*range(first, first + KERNELS), *([SEEN_WRONG] if barriers else [])]
    trees = {f"k{seed}": Tree(seed, barriers) for seed in seeds}
    check(trees, tmp_path, first, *(["--device", "most_in_registers=0"] * in_memory))


@pytest.mark.parametrize("seed", EARLY)
def test_groups_that_return_early(tmp_path: Path, seed: int) -> None:
    """GIVEN a random kernel with barriers whose groups return before, between and after them WHEN
    it is prepared as for PoCL THEN results and counts are right."""
    tree = Tree(seed, barriers=True, early=True)
    check({f"k{seed}": tree}, tmp_path, seed, "--device", "most_in_registers=32", groups=8)


def check(
    trees: Mapping[str, Tree], tmp_path: Path, seed: int, *features: str, groups: int = 2
) -> None:
    """Compare the kernels' results and counts with the model's. `seed`: of their input."""
    device, source = Device(), tmp_path / "random.cl"
    source.write_text("\n".join(tree.source(name) for name, tree in trees.items()))
    made = instrument(source, tmp_path, *features)
    built = device.build_module(made.module)
    data = np.random.default_rng(seed).integers(0, 9, 64, np.int32)
    size, n = groups * LOCAL, 4
    for name, tree in trees.items():
        out = np.zeros(2048, np.int32)
        result = device.buffer(out)
        arguments = [device.buffer(data), result, np.int32(n)]
        counts = device.count(built, made.kernels[name], arguments, (size,), (LOCAL,))
        walked = [tree.run(i, data.tolist(), n) for i in range(size)]
        places = np.array([marks for marks, _ in walked])
        out = device.read(result, out)
        np.testing.assert_array_equal(out[: tree.marks], places.sum(0), err_msg=name)
        np.testing.assert_array_equal(out[1024 : 1024 + size], [end for _, end in walked], name)
        starts = [g + w for g in range(0, size, LOCAL) for w in range(0, LOCAL, WARP)]
        expected = np.add.reduceat(places, starts, axis=0).T
        blocks = {tuple(column) for column in counts.T}
        assert (counts >= 0).all(), name
        for mark, per_warp in enumerate(expected):
            # An unreachable place has no block.
            assert tuple(per_warp) in blocks or not per_warp.any(), (name, mark)
