#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes OpenCL C of the kernels of CUDA sources, so that a program's launches can be profiled on a
CPU device: its block vectors, for methods that need more than a simulator's log.

    tools/bench/cuda_twin.py kernels.cu ... > kernels.cl
    gcc -shared -fPIC tools/bench/cudart_on_opencl.c -Wl,-soname,libcudart.so.13 \\
        -Wl,--version-script=<(echo 'libcudart.so.13 { global: *; };') -lOpenCL -o libcudart.so.13
    LD_LIBRARY_PATH=. TWIN_KERNELS=kernels.cl xpuprof profile -o TWIN -- ./app args

The program is the one that GPGPU-Sim runs (`nvcc -cudart shared`). This knows what the programs of
docs/results/simulators.md use: device functions without pointers, static shared memory, structures,
macros.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

PRELUDE = """\
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define bool uchar
#define half half_
#define __shared__ local
#define __host__
#define __syncthreads() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define INDEX(of) ((uint3)(of(0), of(1), of(2)))
#define threadIdx INDEX(get_local_id)
#define blockIdx INDEX(get_group_id)
#define blockDim INDEX(get_local_size)
#define gridDim INDEX(get_num_groups)
#define make_float4(a, b, c, d) ((float4)(a, b, c, d))
#define rintf rint
#define floorf floor
#define sqrtf sqrt
void atomicAdd(global double *at, double value) {
  ulong old, seen = *(global ulong *)at;
  do {
    old = seen;
    seen = atom_cmpxchg((global ulong *)at, old, as_ulong(as_double(old) + value));
  } while (seen != old);
}
"""
_DIRECTIVE = re.compile(r"^[ \t]*#(?!include|pragma)(?:.*\\\n)*.*$", re.M)
_CONSTANTS = re.compile(r"^constexpr (int|float) ([^;]*);", re.M)
_STRUCT = re.compile(r"^struct (\w+)\s*\{[^}]*\};", re.M)
_FUNCTION = re.compile(r"__(global|device)__[^;{}]*?(\w+)\s*\(([^)]*)\)\s*(?=\{)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", nargs="+", type=Path)
    text = "\n".join(source.read_text() for source in parser.parse_args().sources)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    print(PRELUDE)
    print("\n".join(_DIRECTIVE.findall(text)))
    for kind, names in _CONSTANTS.findall(text):
        print(f"enum {{ {names} }};" if kind == "int" else f"constant float {names};")
    for struct in _STRUCT.finditer(text):
        print(f"{struct[0]}\ntypedef struct {struct[1]} {struct[1]};")
    for function in _FUNCTION.finditer(text):
        print(converted(function) + body(text, function.end()))


def converted(function: re.Match[str]) -> str:
    """The head of a function."""
    kind, name, parameters = function.groups()
    if kind == "device":
        return function[0].replace("__device__", "")
    pointed = (f"global {p}" if "*" in p else p for p in parameters.split(","))
    return f"kernel void {name}({', '.join(pointed)}) "


def body(text: str, start: int) -> str:
    """From a brace to the one that closes it."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[start : at + 1] + "\n"
    raise SystemExit("a function does not end")


if __name__ == "__main__":
    main()
