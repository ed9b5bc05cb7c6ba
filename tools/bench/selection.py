#!/usr/bin/env python3
"""Measure the selection engine: speed, quality against SimPoint, the choices behind the defaults.

    tools/bench/selection.py speed [--simpoint BIN] [--reference BIN] [--slices 1000000]
    tools/bench/selection.py quality --simpoint BIN FILE.bb ...
    tools/bench/selection.py variants RUN[=TIMES] ...      what length, weights, dimensions do
    tools/bench/selection.py scale [--ranks 1 10 100 1000]  jobs of 100,000 slices a rank
    tools/bench/selection.py coverage RUN[=TIMES] ...      how often the intervals hold the truth

BIN are SimPoint 3.2's and the reference implementation's `simpoint`, built from their sources. RUN
is a profiled run directory, TIMES another one with its timer runs. On a busy machine compare CPU
seconds. Output is Markdown.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "unit"))

import traces

import xpuprof
from xpuprof.errors import XpuprofError
from xpuprof.sampling import bic, job, kmeans
from xpuprof.sampling.allocation import moments
from xpuprof.sampling.cluster_method import Options, choose
from xpuprof.sampling.farm import DaskFarm
from xpuprof.sampling.file import selection_text
from xpuprof.sampling.times import typical_times
from xpuprof.signature.matrix import Signature, xpu_signature
from xpuprof.timing.choose import run_times
from xpuprof.timing.intervals import estimate
from xpuprof.timing.slices import main_process
from xpuprof.trace.tables import Blocks, CpuVectors, GpuVectors, Process


@dataclass(frozen=True)
class Cost:
    """What a program took: seconds of the clock, CPU seconds, peak memory in MB."""

    wall: float
    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s, {self.cpu:.2f} CPU s, {self.memory:.0f} MB"


def run(*argv: object) -> tuple[Cost, str]:
    """Runs a program to its end."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([str(a) for a in argv], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        out.seek(0)
        text = out.read()
    if status:
        raise SystemExit(f"{argv[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000), text


# ---- speed ---------------------------------------------------------------------------------------


def frequency_file(path: Path, slices: int, blocks: int, each: int, phases: int) -> None:
    """A .bb file: `each` of the blocks a slice; of as many phases, or with 0 at random."""
    rng = np.random.default_rng(1)
    sets = [np.sort(rng.choice(blocks, each, replace=False)) for _ in range(phases)]
    base = [rng.integers(1000, 100_000, each) for _ in range(phases)]
    with path.open("w") as file:
        for i in range(slices):
            if phases:
                phase = (i * phases // slices + (i % 7 == 0)) % phases
                chosen = sets[phase]
                counts = (base[phase] * rng.uniform(0.8, 1.2, each)).astype(int)
            else:
                chosen = np.sort(rng.choice(blocks, each, replace=False))
                counts = rng.integers(1, 100_000, each)
            pairs = zip(chosen.tolist(), counts.tolist(), strict=True)
            file.write("T" + " ".join(f":{b + 1}:{c}" for b, c in pairs) + "\n")


def run_directory(
    folder: Path, slices: int, threads: int, cpu_blocks: int, of: int, warps: int, gpu_blocks: int,
    grids: int,
) -> Path:  # fmt: skip
    """A profile of `slices` slices: on each of the threads `cpu_blocks` of `of` blocks in 40
    phases with counts that vary, and launches of `grids` distinct grids of `warps` warps, each
    with a vector of its own over `gpu_blocks` blocks."""
    rng = np.random.default_rng(1)
    phases = [np.sort(rng.choice(of, cpu_blocks, replace=False)).tolist() for _ in range(40)]
    tails = [[_bbv_tail(phase, rng) for _ in range(50)] for phase in phases]

    def cpu() -> Iterator[traces.Record]:
        yield traces.image(0, "00ff", "/bin/a")
        for t in range(threads):
            yield traces.thread(t, 500 + t)
        for b in range(of):
            yield traces.block(b, 0, 16 * b, 5)
        whole = 0
        for i in range(slices):
            prefix, own = traces.varint(i), 0
            for t in range(threads):
                tail, instructions = tails[i * 40 // slices][(i * 7 + t) % 50]
                yield 5, prefix + traces.varint(t) + tail, i
                own += instructions
            yield traces.cut(i, traces.START + 10 * i + 9, own)
            whole += own
        yield traces.end(slices, whole)

    def events() -> Iterator[traces.Record]:
        yield traces.program(0)
        yield traces.kernel(0, 0, "k", [4] * gpu_blocks)
        for i in range(slices - 1):
            if i < grids:
                yield from _grid(i, warps, gpu_blocks, rng)
            yield traces.launch(i, 0, traces.START + 10 * i + 1)
            yield traces.complete(i, traces.START + 10 * i + 5)
            yield traces.launch_grid(i, (i * 7919) % min(i + 1, grids))
        yield traces.end(slices - 1, slices - 1)

    end = traces.START + 10 * slices + 100
    return traces.write_run(folder, events(), cpu(), tsc_end=end)


def _bbv_tail(blocks: list[int], rng: np.random.Generator) -> tuple[bytes, int]:
    counts = rng.integers(1, 100_000, len(blocks)).tolist()
    total = 5 * sum(counts)
    head = traces.varints([len(blocks), total])
    return head + traces.deltas(zip(blocks, counts, strict=True)), total


def _grid(
    number: int, warps: int, blocks: int, rng: np.random.Generator
) -> Iterator[traces.Record]:
    total = 0
    for w in range(warps):
        counts = rng.integers(1, 1000, blocks).tolist()
        yield traces.vector(number * warps + w, 0, list(enumerate(counts)))
        total += 4 * sum(counts)
    runs = [(number * warps + w, 1) for w in range(warps)]
    yield traces.grid(number, 0, warps, runs, total)


SELECT = (sys.executable, "-m", "xpuprof", "select", "-q", "--json")

DECODE = """
import xpuprof, sys, time
from xpuprof.signature.matrix import xpu_signature
from xpuprof.timing.slices import main_process
xpu_signature(main_process(xpuprof.open(sys.argv[1]).profile), seed=1)
"""


def speed(arguments: argparse.Namespace) -> None:
    """The table of speeds."""
    print("| work | ours | peer | ratio of CPU seconds |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, phases in (("12 phases", 12), ("no structure", 0)):
            file = folder / "a.bb"
            frequency_file(file, 20_000, 5_000, 50, phases)
            for maxk, dim, peer in ((20, 128, arguments.reference), (50, 15, arguments.simpoint)):
                ours, _ = run(*SELECT, file, "--maxk", maxk, "--dim", dim)
                theirs = _peer(peer, file, maxk, dim, folder) if peer else None
                _row(f"20,000 slices x 5,000 blocks, {kind}, k to {maxk}, {dim} dimensions", ours,
                     theirs)  # fmt: skip
        small = run_directory(folder / "small", 5_001, 4, 50, 5_000, 32, 20, 5_000)
        _row("read, project, join 5,001 slices x (4 threads x 50 + 32 warps x 20 blocks)",
             run(sys.executable, "-c", DECODE, small)[0], None)  # fmt: skip
        big = run_directory(folder / "big", arguments.slices, 1, 20, 10_000, 4, 10, 1_000)
        out = folder / "out"
        _row(f"{arguments.slices:,} slices, 10,000 blocks, k to 50, run directory to selection",
             run(*SELECT, big, "--maxk", 50, "-o", out)[0], None)  # fmt: skip


def _peer(program: Path, file: Path, maxk: int, dim: int, folder: Path) -> Cost:
    return run(
        program, "-loadFVFile", file, "-maxK", maxk, "-dim", dim, "-saveSimpoints", folder / "s",
        "-saveSimpointWeights", folder / "w", "-saveLabels", folder / "l", "-fixedLength", "on",
    )[0]  # fmt: skip


def _row(work: str, ours: Cost, theirs: Cost | None) -> None:
    ratio = f"{theirs.cpu / ours.cpu:.0f}" if theirs else ""
    print(f"| {work} | {ours} | {theirs or ''} | {ratio} |", flush=True)


# ---- quality -------------------------------------------------------------------------------------

KS = (2, 3, 5, 8, 10, 15, 20, 30)
SEEDS = (493575226, 7, 99)


def quality(arguments: argparse.Namespace) -> None:
    """Both cluster the vectors that SimPoint projected, so only the clustering differs."""
    print("| profile | slices | k | within-cluster variance, ours / SimPoint's | BIC, ours - its |")
    print("|---|---|---|---|---|")
    for file in arguments.files:
        with tempfile.TemporaryDirectory() as name:
            theirs = [_simpoint(arguments.simpoint, file, seed, Path(name)) for seed in SEEDS]
            rows = (Path(name) / "v").read_text().splitlines()[1:]
        x = np.array([row.split(":", 1)[1].split() for row in rows], dtype=np.float32)
        points = kmeans.merged(x)
        ours = [kmeans.sweep(points, max(KS), seed) for seed in range(1, 1 + len(SEEDS))]
        for k in KS:
            if k not in ours[0]:
                continue
            mine = [one[k] for one in ours]
            score = np.mean([bic.bic_score(c.wcss, c.mass, x.shape[1]) for c in mine])
            other_score, other_sum = np.mean([one[k] for one in theirs], axis=0)
            ratio = np.mean([c.wcss for c in mine]) / other_sum
            print(f"| {file.name} | {len(x)} | {k} | {ratio:.3f} | {score - other_score:+.0f} |")


def _simpoint(program: Path, file: Path, seed: int, folder: Path) -> dict[int, tuple[float, float]]:
    """(BIC, distortion) by k of SimPoint's best of five starts."""
    _, text = run(
        program, "-k", ",".join(map(str, KS)), "-loadFVFile", file, "-saveSimpoints", folder / "s",
        "-saveSimpointWeights", folder / "w", "-saveVectorsTxtFmt", folder / "v", "-seedkm", seed,
    )  # fmt: skip
    best: dict[int, tuple[float, float]] = {}
    k, score = 0, 0.0
    for line in text.splitlines():
        if match := re.search(r"k = (\d+)$", line):
            k = int(match[1])
        elif match := re.search(r"BIC score: (\S+)", line):
            score = float(match[1])
        elif match := re.search(r"Distortion: (\S+)", line):
            best[k] = max(best.get(k, (-np.inf, 0.0)), (score, float(match[1])))
    return best


# ---- the defaults --------------------------------------------------------------------------------


def subjects(arguments: argparse.Namespace) -> Iterator[tuple[str, Process, np.ndarray]]:
    """(name, process, times) of each RUN[=TIMES] given."""
    for text in arguments.runs:
        profile, _, timed = text.partition("=")
        profiled = xpuprof.open(profile).profile
        assert profiled is not None
        process = main_process(profiled)
        times = run_times(xpuprof.open(timed or profile), len(process.slices))
        if times is None:
            raise SystemExit(f"{text}: no timer run of {len(process.slices)} slices")
        yield Path(profile).name, process, times


def _raw(process: Process, seed: int) -> Signature:
    """Lengths as the reference has them: no normalisation, the counts themselves."""
    base = xpu_signature(process, seed=seed, length_weight=0.0)
    width = int(base.parameters["dim"])
    columns = []
    for part, column in enumerate(("gpu_instructions", "cpu_instructions")):
        length = process.slices[column].to_numpy(float)
        mix = base.matrix[:, part * (width + 1) : part * (width + 1) + width]
        if mix.shape[1]:
            mean = length[length > 0].mean() if length.any() else 1.0
            columns.append((mix * (length / mean)[:, None]).astype(np.float32))
    return Signature(np.hstack(columns), base.extent, base.instructions, base.parameters)


VARIANTS: dict[str, Callable[[Process, int], Signature]] = {
    "default": lambda p, s: xpu_signature(p, seed=s),
    "counts, not normalised": _raw,
    "mix alone": lambda p, s: xpu_signature(p, seed=s, length_weight=0.0),
    "length x 0.25": lambda p, s: xpu_signature(p, seed=s, length_weight=0.25),
    "length x 4": lambda p, s: xpu_signature(p, seed=s, length_weight=4.0),
    "CPU weight 0": lambda p, s: xpu_signature(p, seed=s, cpu_weight=0.0),
    "CPU weight 0.1": lambda p, s: xpu_signature(p, seed=s, cpu_weight=0.1),
    "CPU weight 0.9": lambda p, s: xpu_signature(p, seed=s, cpu_weight=0.9),
    "dim 8": lambda p, s: xpu_signature(p, seed=s, dim=8),
    "dim 16": lambda p, s: xpu_signature(p, seed=s, dim=16),
    "dim 256": lambda p, s: xpu_signature(p, seed=s, dim=256),
    "1 warp bucket": lambda p, s: xpu_signature(p, seed=s, warp_buckets=1),
    "256 warp buckets": lambda p, s: xpu_signature(p, seed=s, warp_buckets=256),
}


def variants(arguments: argparse.Namespace) -> None:
    """Clusters, and the error to expect of one random slice a cluster: by number of slices, and by
    instructions (each representative's time x instructions of the cluster / its own)."""
    print("| profile | variant | k | expected error, multiplier by slices | by instructions |")
    print("|---|---|---|---|---|")
    for name, process, runs in subjects(arguments):
        times = runs.min(axis=0)  # what no disturbance can make shorter
        for variant, make in VARIANTS.items():
            results = []
            for seed in (1, 2, 3):
                signature = make(process, seed)
                choice = choose(signature, Options(per_cluster=1), seed)
                errors = expected(choice.labels, times, signature.instructions)
                results.append((len(choice.picks.slice), *errors))
            k, plain, ratio = np.mean(results, axis=0)
            print(f"| {name} | {variant} | {k:.1f} | {plain:.2%} | {ratio:.2%} |", flush=True)


def expected(labels: np.ndarray, times: np.ndarray, length: np.ndarray) -> tuple[float, float]:
    """Root mean square error of the projection from one random slice a cluster, relative: with
    multipliers by slices and by instructions (bias included)."""
    clusters = int(labels.max()) + 1
    size, _, _ = moments(labels, times, clusters)
    total = times.sum()
    variance = bias = 0.0
    plain = 0.0
    for c in range(clusters):
        own = labels == c
        plain += size[c] ** 2 * times[own].var()
        weights = np.maximum(length[own], 1.0)
        projected = times[own] * weights.sum() / weights
        variance += projected.var()
        bias += projected.mean() - times[own].sum()
    return float(np.sqrt(plain) / total), float(np.sqrt(variance + bias**2) / total)


def coverage(arguments: argparse.Namespace) -> None:
    """Of each single timer run: does the interval of the projection hold the run's total? And with
    one run's representatives, the other runs' totals?"""
    print("| profile | slices | representatives | error, worst run | 95 % interval, half-width "
          "| own total inside | from three runs, the next run inside |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for name, process, runs in subjects(arguments):
        from xpuprof.sampling.methods import select

        inside, errors, widths = [], [], []
        for seed in range(1, 6):
            chosen = select("xpu-point", process, seed=seed)
            for one in runs:
                answer = estimate(chosen, one)
                assert answer.low is not None and answer.high is not None
                inside.append(answer.low <= one.sum() <= answer.high)
                errors.append(abs(answer.value / one.sum() - 1))
                widths.append((answer.high - answer.low) / 2 / one.sum())
        later = []
        for start in range(len(runs) - 3):
            answer = estimate(chosen, runs[start : start + 3], other_runs=True)
            assert answer.low is not None and answer.high is not None
            later.append(answer.low <= typical_times(runs[start + 3 :]).sum() <= answer.high)
        print(f"| {name} | {len(process.slices)} | {len(chosen.representatives)} | "
              f"{max(errors):.2%} | {np.mean(widths):.2%} | {sum(inside)} of {len(inside)} | "
              f"{sum(later)} of {len(later)} |", flush=True)  # fmt: skip


# ---- many runs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated:
    """A rank of `slices` slices made on the fly: 40 phases, 50 variants of each, 500 grids."""

    name: str
    seed: int
    slices: int

    def process(self) -> Process:
        rng = np.random.default_rng(7)  # the same program on every rank
        sets = np.stack([np.sort(rng.choice(10_000, 20, replace=False)) for _ in range(40)])
        variants = rng.integers(1, 100_000, (40, 50, 20)).astype(np.uint64)
        identity = rng.integers(1, 2**63, 10_000, dtype=np.uint64)
        counts = rng.integers(1, 1000, 5000).astype(np.uint64)
        own = np.random.default_rng(self.seed)
        n, u32, u64 = self.slices, np.uint32, np.uint64
        phase = np.arange(n) * 40 // n
        cpu = CpuVectors(
            np.repeat(np.arange(n, dtype=u32), 20), np.zeros(20 * n, u32),
            sets[phase].ravel().astype(u32), variants[phase, own.integers(0, 50, n)].ravel(),
            np.arange(0, 20 * n + 1, 20).astype(u64), Blocks(identity, np.full(10_000, 5, u32)),
        )  # fmt: skip
        gpu = GpuVectors(
            phase[:-1] * 12 + own.integers(0, 12, n - 1), np.arange(501, dtype=u64),
            np.arange(500, dtype=u32), np.full(500, 64, u64), np.arange(0, 5001, 10).astype(u64),
            np.tile(np.arange(10, dtype=u32), 500), counts,
            Blocks(identity[:10], np.full(10, 4, u32)),
            np.array([0, 10], u64), np.zeros((10, 12), np.uint16),
        )  # fmt: skip
        launches = pd.DataFrame({"launch": np.arange(n - 1)})
        columns = ("cpu_instructions", "gpu_instructions", "gx", "gy", "gz", "lx", "ly", "lz")
        slices = pd.DataFrame({"slice": np.arange(n), "call": np.arange(1, n + 1)})
        slices = slices.assign(kernel="k", program="", **dict.fromkeys(columns, 1))
        none = pd.DataFrame()
        return Process(
            self.name, {}, launches, slices, none, cpu, gpu, none, none, none, complete=True
        )


def scale(arguments: argparse.Namespace) -> None:
    """How the cost of one selection grows with the slices of a job, 100,000 a rank."""
    print("| slices | ranks | here | with 2 workers | same selection | memory here |")
    print("|---|---|---|---|---|---|")
    for ranks in arguments.ranks:
        sources = [Generated(f"rank {r}", r, 100_000) for r in range(ranks)]
        plan, options = job.Plan(seed=1, dim=arguments.dim), Options(maxk=50)
        begin, cpu = time.perf_counter(), time.process_time()
        here = job.select_job(sources, plan, options)
        alone = f"{time.perf_counter() - begin:.1f} s, {time.process_time() - cpu:.1f} CPU s"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        with DaskFarm(2) as farm:
            begin = time.perf_counter()
            there = job.select_job(sources, plan, options, farm)
            apart = f"{time.perf_counter() - begin:.1f} s"
        same = selection_text(here) == selection_text(there)
        print(f"| {ranks * 100_000:,} | {ranks} | {alone} | {apart} | {'yes' if same else 'NO'} "
              f"| {peak:.2f} GB |", flush=True)  # fmt: skip


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    add = commands.add_parser("speed")
    add.add_argument("--simpoint", type=Path)
    add.add_argument("--reference", type=Path)
    add.add_argument("--slices", type=int, default=1_000_000)
    add.set_defaults(function=speed)
    add = commands.add_parser("quality")
    add.add_argument("--simpoint", type=Path, required=True)
    add.add_argument("files", type=Path, nargs="+")
    add.set_defaults(function=quality)
    for function in (variants, coverage):
        add = commands.add_parser(function.__name__)
        add.add_argument("runs", nargs="+")
        add.set_defaults(function=function)
    add = commands.add_parser("scale")
    add.add_argument("--ranks", type=int, nargs="+", default=[1, 10, 100, 1000])
    add.add_argument("--dim", type=int, default=16)
    add.set_defaults(function=scale)
    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
    except XpuprofError as error:
        raise SystemExit(str(error)) from error
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(f"\npeak memory of a child: {peak:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
