# SPDX-License-Identifier: Apache-2.0
"""What CPU engines cost: time under the tool / native, in interleaved pairs.

    python tools/bench/cpu_overhead.py [--engine valgrind --engine dynamorio] [--pairs 5]
                                       [--only NAME] [--json]

A pair is native, then instrumented by each engine, so that the machine's drift affects all. Prints
the medians, the median and middle half of the pairs' ratios, and the median ratio to the bare
framework (`valgrind --tool=none`, `drrun` without a client), which translates without counting:
our part of the cost. The last rows are a program with many
known blocks and many cuts: their cost is that of the launches.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median, quantiles

from xpuprof.engines.base import CpuEngine, CpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.native import native_file

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
NATIVE = native_file("libxpuprof_rt.so").parent

ENGINES: dict[str, CpuEngine] = {"valgrind": Valgrind(), "dynamorio": DynamoRio()}

FUNCTIONS = 12_500  # about 9 blocks each

MANY_BLOCKS = """
#include <pthread.h>
#include <stdlib.h>
#include "xpuprof/boundary.h"
static volatile int sink;
#define F(n) __attribute__((noinline)) static void f##n(int x) {{ \\
  if (x & 1) sink += n; if (x & 2) sink ^= n; if (x & 4) sink -= n; if (x & 8) sink *= 3; }}
{functions}
static void (*table[])(int) = {{ {names} }};
enum {{ N = sizeof table / sizeof *table }};
static pthread_barrier_t start, end;
static unsigned slices;
static void turn(unsigned t, unsigned s) {{
  pthread_barrier_wait(&start);
  for (unsigned i = 0; i < 50; i++) table[(s * 7919 + t * 104729 + i * 131) % N]((int)(s + i));
  pthread_barrier_wait(&end);
}}
static pthread_barrier_t never;
static void *idle(void *unused) {{
  pthread_barrier_wait(&never);
  return unused;
}}
static void *work(void *t) {{
  for (unsigned s = 0; s < slices; s++) turn((unsigned)(long)t, s);
  return 0;
}}
int main(int argc, char **argv) {{
  unsigned threads = (unsigned)atoi(argv[1]);
  static const uint8_t hash[16];
  xpu_launch launch = {{.dimensions = 1, .global = {{1, 1, 1}}}};
  pthread_t ids[64];
  slices = (unsigned)atoi(argv[2]);
  pthread_barrier_init(&start, 0, threads);
  pthread_barrier_init(&end, 0, threads);
  pthread_barrier_init(&never, 0, 1000);
  for (int i = 0; argc > 4 && i < atoi(argv[4]); i++) pthread_create(&ids[0], 0, idle, 0);
  for (int x = 0; x < 16; x++) for (int i = 0; i < N; i++) table[i](x);
  for (long t = 1; t < threads; t++) pthread_create(&ids[t], 0, work, (void *)t);
  xpu_kernel_built(xpu_program_built(hash, 0, ""), "kernel", 0, 0, "stand-in");
  for (unsigned s = 0; s < slices; s++) {{
    turn(0, s);
    if (argc > 3) xpu_kernel_run(&launch);
  }}
  for (unsigned t = 1; t < threads; t++) pthread_join(ids[t], 0);
}}
"""


def compile_program(folder: Path, source: Path, *flags: str) -> Path:
    program = folder / source.stem
    command = ["gcc", *flags, "-o", str(program), str(source), "-lpthread"]
    if source.stem == "many_blocks":
        command += [f"-I{ROOT / 'native' / 'include'}", f"-L{NATIVE}", "-lxpuprof_rt"]
        command += [f"-Wl,-rpath,{NATIVE}"]
    subprocess.run(command, check=True)
    return program


@cache
def many_blocks(folder: Path) -> str:
    source = folder / "many_blocks.c"
    source.write_text(
        MANY_BLOCKS.format(
            functions="\n".join(f"F({i})" for i in range(FUNCTIONS)),
            names=", ".join(f"f{i}" for i in range(FUNCTIONS)),
        )
    )
    return str(compile_program(folder, source, "-O1"))


@cache
def cpu_integer(folder: Path) -> str:
    return str(compile_program(folder, PROGRAMS / "cpu_integer.c", "-O2"))


@cache
def cpu_inlined(folder: Path) -> str:
    source = folder / "cpu_inlined.c"
    text = (PROGRAMS / "cpu_integer.c").read_text()
    source.write_text(text.replace("noinline)) static", "always_inline)) static inline"))
    return str(compile_program(folder, source, "-O2"))


@cache
def cpu_matrix(folder: Path) -> str:
    return str(compile_program(folder, PROGRAMS / "cpu_matrix.c", "-O3", "-ffast-math"))


# Without hiding FMA, Valgrind's translation alone is hundreds of times slower, so it is skipped.
NO_BARE = {("valgrind", "matrix (FMA natively)")}


def bare(engine: str, argv: list[str]) -> list[str]:
    """The command line that runs `argv` under the framework, without our tool."""
    if engine == "valgrind":
        return ["valgrind", "--tool=none", "--quiet", *argv]
    return [f"{ENGINES[engine].probe().details['kit']}/bin64/drrun", "-quiet", "--", *argv]


# Programs are compiled when their case is measured.
CASES: dict[str, Callable[[Path], list[str]]] = {
    "integer, 1 thread": lambda folder: [cpu_integer(folder), "2000000"],
    "integer, no calls, 1 thread": lambda folder: [cpu_inlined(folder), "2000000"],
    "integer, 4 threads": lambda folder: [cpu_integer(folder), "700000", "4"],
    "matrix (FMA natively)": lambda folder: [cpu_matrix(folder), "50"],
    "python3 -c pass": lambda _: [sys.executable, "-c", "pass"],
    "python3 -c 'import numpy'": lambda _: [sys.executable, "-c", "import numpy"],
    "true": lambda _: ["/bin/true"],
    "100,000 blocks, 1 thread": lambda folder: [many_blocks(folder), "1", "20000"],
    "... 20,000 cuts": lambda folder: [many_blocks(folder), "1", "20000", "cut"],
    "... and 64 waiting threads": lambda folder: [many_blocks(folder), "1", "20000", "cut", "64"],
    "100,000 blocks, 4 threads": lambda folder: [many_blocks(folder), "4", "20000"],
    "... 20,000 cuts, 4 threads": lambda folder: [many_blocks(folder), "4", "20000", "cut"],
}


def seconds(argv: list[str], environment: dict[str, str], cpu_time: bool) -> float:
    """Wall time, or the processor time of the program and its children."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return max(busy, 0.001) if cpu_time else wall


def under(engine: str, argv: list[str], cpu_time: bool) -> tuple[float, int]:
    """Seconds under the engine's tool, and bytes of cpu.xpt."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        line, more = ENGINES[engine].wrap(argv, CpuOptions(), folder)
        spent = seconds(line, {**os.environ, **more, "XPUPROF_DIR": name}, cpu_time)
        return spent, sum(file.stat().st_size for file in folder.glob("*/cpu.xpt"))


def measure(
    case: str, argv: list[str], engines: list[str], pairs: int, cpu_time: bool
) -> dict[str, dict[str, float]]:
    """By engine."""
    native: list[float] = []
    none: dict[str, list[float]] = {engine: [] for engine in engines}
    tool: dict[str, list[float]] = {engine: [] for engine in engines}
    size = dict.fromkeys(engines, 0)
    for _ in range(pairs):
        native.append(seconds(argv, dict(os.environ), cpu_time))
        for engine in engines:
            if (engine, case) not in NO_BARE:
                none[engine].append(seconds(bare(engine, argv), dict(os.environ), cpu_time))
            spent, size[engine] = under(engine, argv, cpu_time)
            tool[engine].append(spent)
    return {e: summary(native, none[e], tool[e]) | {"bytes": size[e]} for e in engines}


def summary(native: list[float], none: list[float], tool: list[float]) -> dict[str, float]:
    ratios = [t / n for n, t in zip(native, tool, strict=True)]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return {
        "native_s": median(native),
        "tool_s": median(tool),
        "ratio": median(ratios),
        "ratio_low": low,
        "ratio_high": high,
        "ratio_none": median([t / n for n, t in zip(none, tool, strict=False)] or [math.nan]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true", help="for a machine that is not quiet")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--engine", action="append", choices=list(ENGINES), default=None)
    options = parser.parse_args()
    engines, results = options.engine or ["valgrind"], {}
    with tempfile.TemporaryDirectory() as name:
        for case, make in CASES.items():
            if options.only in case:
                argv = make(Path(name))
                results[case] = measure(case, argv, engines, options.pairs, options.cpu_time)
            for engine, r in results.get(case, {}).items():
                if not options.json:
                    print(
                        f"| {case} | {engine} | {r['native_s']:.3f} s | {r['tool_s']:.3f} s | "
                        f"{r['ratio']:.2f} ({r['ratio_low']:.2f} - {r['ratio_high']:.2f}) | "
                        f"{r['ratio_none']:.2f} | "
                        f"{r['bytes']:,} |",
                        flush=True,
                    )
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
