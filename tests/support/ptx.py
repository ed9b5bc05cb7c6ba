# SPDX-License-Identifier: Apache-2.0
"""What the tests of the PTX engine share: the rewriter and the emulator as programs, and PTX with
random control flow."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.paths import NATIVE_TESTS, ROOT
from tests.support.run import output

EMULATOR = NATIVE_TESTS / "ptx_emulator"
REWRITER = [ROOT / "native/gpu/opencl/instrumenter/flow.cpp"]
REWRITER += sorted((ROOT / "native/gpu/ptx").glob("*.cpp"))
PARTS = [EMULATOR / f"{name}.cpp" for name in ("parse", "evaluate", "emulator")]
INCLUDES = [f"-I{ROOT}/native/{p}" for p in ("gpu/ptx", "gpu/cuda", "gpu/opencl", "include")]
INCLUDES.append(f"-I{EMULATOR}")
COMPILER = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *INCLUDES]


def build(folder: Path, name: str) -> Path:
    """One of the programs beside the emulator, built."""
    program = folder / name
    sources = [EMULATOR / f"{name}.cpp", *REWRITER, *(PARTS if name == "check" else ())]
    output([*COMPILER, *map(str, sources), "-o", str(program)])
    return program


HEADER = """.version 8.0
.target sm_{target}
.address_size 64
"""

FUNCTION = """.visible .{kind} {name}({params}) {{
.reg .pred %p<3>;
.reg .b32 %x, %fuel, %t;
.reg .b64 %in, %out, %at;
{start}
{blocks}
}}
"""

ENTER_KERNEL = """ld.param.u64 %in, [p0];
ld.param.u64 %out, [p1];
mov.u32 %x, %ctaid.x;
mov.u32 %t, %ntid.x;
mov.u32 %fuel, %tid.x;
mad.lo.u32 %x, %x, %t, %fuel;
mul.wide.u32 %at, %x, 4;
add.u64 %in, %in, %at;
add.u64 %out, %out, %at;
ld.global.u32 %x, [%in];
mov.u32 %fuel, 60;"""

ENTER_FUNCTION = """ld.param.u32 %x, [a0];
mov.u32 %fuel, 9;"""

STEP = """mad.lo.u32 %x, %x, 1664525, 1013904223;
shr.u32 %t, %x, 16;
and.b32 %t, %t, 3;
setp.eq.u32 %p1, %t, 0;
sub.u32 %fuel, %fuel, 1;
setp.eq.u32 %p2, %fuel, 0;"""


def _leave(kernel: bool, rng: random.Random) -> tuple[str, str]:
    """What is stored before a thread leaves, and the instruction that leaves."""
    if kernel:
        return "st.global.u32 [%out], %x;", rng.choice(["ret;", "exit;"])
    return "st.param.b32 [r0], %x;", "ret;"


def _call(rng: random.Random, functions: int) -> str:
    name = f"f{rng.randrange(functions)}"
    return (
        "{\n.param .b32 give;\n.param .b32 back;\nst.param.b32 [give], %x;\n"
        f"call.uni (back), {name}, (give);\nld.param.b32 %x, [back];\n}}"
    )


def _label(rng: random.Random, n: int) -> str:
    return f"$B{rng.randrange(n)}"


def _block(rng: random.Random, at: int, n: int, kernel: bool, functions: int) -> list[str]:
    store, leave = _leave(kernel, rng)
    lines = [f"$B{at}:", '.pragma "nounroll";', STEP]
    if functions and rng.random() < 0.3:
        lines.append(_call(rng, functions))
    lines += [store, f"@%p2 {leave}"]
    kind = rng.choice(["bra", "not", "jump", "table", "leave", "fall"])
    if kind == "bra":
        lines.append(f"@%p1 bra {_label(rng, n)};")
    elif kind == "not":
        lines.append(f"@!%p1 bra {_label(rng, n)};")
    elif kind == "jump":
        lines.append(f"bra.uni {_label(rng, n)};")
    elif kind == "table":
        targets = ", ".join(_label(rng, n) for _ in range(4))
        lines += [f"$T{at}: .branchtargets {targets};", f"brx.idx %t, $T{at};"]
    elif kind == "leave":
        lines += [store, f"@!%p1 {leave}"]
    return lines


def _function(rng: random.Random, name: str, kernel: bool, functions: int) -> str:
    n = rng.randrange(1, 14)
    lines = [line for at in range(n) for line in _block(rng, at, n, kernel, functions)]
    lines += _leave(kernel, rng)
    params = ".param .u64 p0, .param .u64 p1" if kernel else ".param .b32 a0"
    return FUNCTION.format(
        kind="entry" if kernel else "func (.param .b32 r0)",
        name=name,
        params=params,
        start=ENTER_KERNEL if kernel else ENTER_FUNCTION,
        blocks="\n".join(lines),
    )


def random_ptx(seed: int, target: int = 80) -> str:
    """A module with a kernel `k` of two buffers and up to two device functions, every branch of
    which depends on the thread's data; no structure is kept."""
    rng = random.Random(seed)
    functions = rng.randrange(3)
    parts = [_function(rng, f"f{i}", False, i) for i in range(functions)]
    return HEADER.format(target=target) + "".join([*parts, _function(rng, "k", True, functions)])
