# SPDX-License-Identifier: Apache-2.0
"""Host-side cost of the CUDA timer, per launch, on the stand-in driver (no GPU is used).

    python tools/bench/cuda_launches.py [--launches 200000] [--pairs 5]

Runs the stand-in's program alone, with a CUPTI subscriber that does nothing, and with the timer
(async), in turn, and prints the processor time per launch (user and system, of the whole process,
completions included): medians, and the medians of the differences within each round. The stand-in's
own work is in all three; the timer's cost is the last column. The cost of NVIDIA's libraries
shows only on a GPU.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from xpuprof.engines.base import recording
from xpuprof.engines.native import native_file

SOURCES = Path(__file__).parents[2] / "tests" / "native" / "fake_cuda"


def build(folder: Path, include: str) -> None:
    """The stand-in, its program, its cubin and the idle subscriber."""
    compiler = ["g++", "-std=c++17", "-O2", "-w", "-isystem", include]
    shared = [*compiler, "-shared", "-fPIC"]
    fake = str(folder / "libcuda.so.1")
    soname = "-Wl,-soname,libcuda.so.1"
    subprocess.run([*shared, str(SOURCES / "fake_cuda.cpp"), soname, "-o", fake], check=True)
    idle = str(Path(__file__).parent / "idle_subscriber.cpp")
    subprocess.run([*shared, idle, "-o", str(folder / "idle.so")], check=True)
    program = [str(SOURCES / "program.cpp"), fake, "-lpthread", "-o", str(folder / "program")]
    subprocess.run([*compiler, *program], check=True)
    cubin = ["-arch=sm_90", "-cubin", str(SOURCES / "kernels.cu"), "-o", str(folder / "k.cubin")]
    subprocess.run(["nvcc", *cubin], check=True)


def nanoseconds(folder: Path, injected: str, launches: int) -> float:
    """Processor time of one run, ns per launch."""
    with tempfile.TemporaryDirectory() as run:
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(folder),
            "XPUPROF_CUPTI": str(folder / "libcuda.so.1"),
            **recording("time", "async", Path(run)),
            "CUDA_INJECTION64_PATH": injected,
        }
        command = [str(folder / "program"), str(folder / "k.cubin"), "dense", str(launches)]
        with open(os.devnull, "w") as nowhere:
            child = subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"the stand-in's program ended with {child.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e9 / launches


def main() -> None:
    """Prints one line per round, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=200_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--include", default="/usr/local/cuda/include")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        build(folder, options.include)
        ways = {
            "alone": "",
            "idle subscriber": str(folder / "idle.so"),
            "timer": str(native_file("libxpuprof_cuda.so")),
        }
        names = [*ways, "timer - alone", "timer - idle"]
        print("  ".join(f"{name:>15}" for name in names), " (ns per launch)")
        rounds = []
        for _ in range(options.pairs):
            alone, idle, timer = (
                nanoseconds(folder, injected, options.launches) for injected in ways.values()
            )
            rounds.append([alone, idle, timer, timer - alone, timer - idle])
            print("  ".join(f"{value:15.0f}" for value in rounds[-1]))
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print("  ".join(f"{value:15.0f}" for value in medians), " median")


if __name__ == "__main__":
    main()
