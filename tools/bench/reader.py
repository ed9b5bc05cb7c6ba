# SPDX-License-Identifier: Apache-2.0
"""How long the reader takes from files to tables, and how much memory.

    tools/bench/reader.py [--slices 5001] [--threads 4] [--cpu-blocks 50] [--warps 32]
                          [--gpu-blocks 20] [--repeat 5]

Writes a synthetic run whose vectors all differ, then reads it in fresh processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.streams import StreamWriter, text, u64, varint, varints
from xpuprof.trace.layout import CPU, EVENTS
from xpuprof.trace.streams import FILES

CPU_BLOCKS, GPU_BLOCKS = 1000, 100
INSTRUCTIONS = 3
"""Instructions of every block."""
READ = """
import json, resource, sys, time
from pathlib import Path
from xpuprof.trace.reader import read_process
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, start = peak(), time.perf_counter()
process = read_process(Path(sys.argv[1]), "profile", True).tables
seconds = time.perf_counter() - start
pairs = len(process.cpu.count) + len(process.gpu.count)
print(json.dumps({"s": seconds, "mib": peak() - before, "pairs": pairs}))
"""


def vector(blocks: int, limit: int, random: np.random.Generator) -> tuple[bytes, int]:
    """Pairs of a vector over `blocks` of `limit` blocks, and its instructions."""
    counts = random.integers(1, 100_000, blocks).tolist()
    step = varint(max(limit // blocks - 1, 1))
    return b"".join(step + varint(n) for n in counts), INSTRUCTIONS * sum(counts)


def write_cpu(path: Path, slices: int, threads: int, blocks: int) -> None:
    """cpu.xpt: every thread runs `blocks` blocks in every slice."""
    random, whole = np.random.default_rng(1), 0
    with StreamWriter(path, CPU) as out:
        out.put(2, varint(0) + text("00") + text("/bin/made-up"))
        for b in range(CPU_BLOCKS):
            out.put(3, varints([b, 0, 16 * b, INSTRUCTIONS]))
        for t in range(threads):
            out.put(4, varints([t, t]))
        for s in range(slices):
            total = 0
            for t in range(threads):
                pairs, own = vector(blocks, CPU_BLOCKS, random)
                out.put(5, varints([s, t, blocks, own]) + pairs, s)
                total += own
            out.put(6, varint(s) + u64(s + 1) + varint(total), s)
            whole += total
        out.put(15, varints([slices, whole]))


def write_events(path: Path, launches: int, warps: int, blocks: int) -> None:
    """events.xpt: no two warps are equal."""
    random, mix = np.random.default_rng(2), varints([INSTRUCTIONS, INSTRUCTIONS, *[0] * 11])
    with StreamWriter(path, EVENTS) as out:
        out.put(2, varint(0) + bytes(17) + text(""))
        kernel = varints([0, 0]) + text("k") + varint(GPU_BLOCKS) + mix * GPU_BLOCKS
        out.put(3, kernel + text(""))
        for i in range(launches):
            total = 0
            for w in range(warps):
                pairs, own = vector(blocks, GPU_BLOCKS, random)
                out.put(7, varints([i * warps + w, 0, blocks]) + pairs)
                total += own
            runs = b"".join(varints([i * warps + w, 1]) for w in range(warps))
            out.put(8, varints([i, 0, warps, warps]) + runs + u64(total))
            sizes = varints([32 * warps, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0])
            out.put(4, varints([i, 0]) + b"\1" + sizes + u64(i + 1) + b"\1" + text(""), i)
            out.put(5, varint(i) + u64(i + 1) + u64(0) + u64(0), i)
            out.put(9, varints([i, i]), i)
        out.put(15, varints([launches, launches]))


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (
        ("slices", 5001),
        ("threads", 4),
        ("cpu-blocks", 50),
        ("warps", 32),
        ("gpu-blocks", 20),
        ("repeat", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder)
        write_cpu(part / FILES[CPU], a.slices, a.threads, a.cpu_blocks)
        write_events(part / FILES[EVENTS], a.slices - 1, a.warps, a.gpu_blocks)
        size = sum(file.stat().st_size for file in part.iterdir())
        runs = [
            json.loads(subprocess.check_output([sys.executable, "-c", READ, folder]))
            for _ in range(a.repeat)
        ]
    result = vars(a) | {
        "bytes": size,
        "pairs": runs[0]["pairs"],
        "seconds_best": min(run["s"] for run in runs),
        "seconds_median": float(np.median([run["s"] for run in runs])),
        "mib_more": max(run["mib"] for run in runs),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
