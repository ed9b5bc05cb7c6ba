#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the selection engine: speed, quality against SimPoint, the choices behind the defaults.

    tools/bench/selection.py speed [--simpoint BIN] [--reference BIN] [--slices 1000000]
    tools/bench/selection.py quality --simpoint BIN FILE.bb ...
    tools/bench/selection.py variants RUN=TIMES ... --confirm RUN=TIMES ...
    tools/bench/selection.py errors RUN[=TIMES] ...        error, targets and budgets, on other runs
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
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import xpuprof
from tests.support import traces
from xpuprof.clustering import bic, kmeans
from xpuprof.errors import XpuprofError
from xpuprof.estimation.intervals import estimate, one_run_error
from xpuprof.estimation.projection import project, sampling_error
from xpuprof.estimation.typical_times import typical_times
from xpuprof.methods import registry
from xpuprof.methods.recorded import from_process
from xpuprof.signature.matrix import Projection, Signature, signatures
from xpuprof.trace.tables import Process
from xpuprof.workflow.subjects import profiled_job, run_times


@dataclass(frozen=True)
class Cost:
    """Cost of a program: wall seconds, CPU seconds, peak memory in MB."""

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
from xpuprof.signature.matrix import Projection, signatures
from xpuprof.trace.slice_times import main_process
signatures([main_process(xpuprof.open(sys.argv[1]).profile)], Projection(seed=1))
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


def subjects(runs: list[str]) -> Iterator[tuple[str, Process, np.ndarray]]:
    """(name, process, times) of each RUN[=TIMES] given."""
    for text in runs:
        profile, _, timed = text.partition("=")
        job = profiled_job(xpuprof.open(profile))
        (process,) = job.processes
        times, _ = run_times(xpuprof.open(timed or profile), job)
        if times is None:
            raise SystemExit(f"{text}: no timer run of {len(process.slices)} slices")
        yield Path(profile).name, process, times


def _signature(process: Process, **projection: Any) -> Signature:
    return signatures([process], Projection(**projection))[0]


def _logarithm(process: Process, seed: int, weight: float) -> np.ndarray:
    """Distance of slices by the ratio of their lengths."""
    base = _signature(process, seed=seed, length_weight=0.0)
    width = int(base.parameters["dim"]) + 1
    columns = []
    for part, column in enumerate(("gpu_instructions", "cpu_instructions")):
        mix = base.matrix[:, part * width : (part + 1) * width - 1]
        if mix.shape[1]:
            length = np.log2(1.0 + process.slices[column].to_numpy(float))
            columns += [mix, length[:, None] * weight * np.sqrt(0.5)]
    return np.hstack(columns).astype(np.float32)


Labels = Callable[[Process, int, int], dict[int, np.ndarray]]
"""Labels of the inner slices for each k, from (process, seed, largest k)."""


def by(ratio: bool = False, **options: float) -> tuple[Labels, bool]:
    """Clusters of the signature with these options. `ratio`: multipliers by instructions."""
    return (lambda p, s, k: _clusters(_signature(p, seed=s, **options).matrix, s, k)), ratio  # type: ignore[arg-type]


def _clusters(matrix: np.ndarray, seed: int, most: int) -> dict[int, np.ndarray]:
    points = kmeans.merged(matrix[1:-1])
    sweep = kmeans.sweep(points, most, seed)
    return {k: kmeans.nearest(points.x, one.centre)[points.point] for k, one in sweep.items()}


def by_logarithm(weight: float, ratio: bool = False) -> tuple[Labels, bool]:
    """Clusters by the ratio of lengths."""
    return (lambda p, s, k: _clusters(_logarithm(p, s, weight), s, k)), ratio


def _strata(process: Process, seed: int, most: int) -> dict[int, np.ndarray]:
    """About sqrt(k) clusters of the mix alone, each cut into as many strata by length."""
    signature = _signature(process, seed=seed, length_weight=0.0)
    mixes = _clusters(signature.matrix, seed, int(np.sqrt(most)))
    length = np.log2(1.0 + signature.instructions[1:-1]).astype(np.float32)[:, None]
    found = {}
    for root, mix in mixes.items():
        labels = np.zeros(len(mix), np.int64)
        for c in range(root):
            own = np.flatnonzero(mix == c)
            if len(own):
                strata = kmeans.merged(length[own])
                cuts = kmeans.sweep(strata, root, seed)
                labels[own] = root * c + cuts[max(cuts)].label[strata.point]
        found[root * root] = np.unique(labels, return_inverse=True)[1]
    return found


VARIANTS: dict[str, tuple[Labels, bool]] = {
    "default": by(),
    "multipliers by instructions": by(ratio=True),
    "counts, not normalised": by(counts=True),
    "counts, multipliers by instructions": by(ratio=True, counts=True),
    "mix alone": by(length_weight=0.0),
    "mix alone, multipliers by instructions": by(ratio=True, length_weight=0.0),
    "mix alone, strata by length": (_strata, False),
    "length weight 1": by(length_weight=1.0),
    "length weight 16": by(length_weight=16.0),
    "logarithm of length, weight 1": by_logarithm(1.0),
    "logarithm of length, weight 4": by_logarithm(4.0),
    "logarithm of length, multipliers by instructions": by_logarithm(1.0, ratio=True),
    "GPU part alone": by(cpu_weight=0.0),
    "CPU weight 0.1": by(cpu_weight=0.1),
    "CPU weight 0.9": by(cpu_weight=0.9),
    "8 dimensions per part": by(dim=8),
    "16 dimensions per part": by(dim=16),
    "256 dimensions per part": by(dim=256),
    "1 warp cell": by(warp_buckets=1),
    "256 warp cells": by(warp_buckets=256),
}

CLUSTERS = (4, 9, 16)
"""Numbers of clusters at which variants are compared: the same for all, squares for `_strata`."""


def variants(arguments: argparse.Namespace) -> None:
    """Error to expect of one random slice a cluster, by variant and program, at equal numbers of
    clusters. One table of the programs that decide, one of those that confirm."""
    for what, runs in (("Decided on", arguments.runs), ("Confirmed on", arguments.confirm)):
        if not runs:
            continue
        programs = {name: (process, times.min(axis=0)) for name, process, times in subjects(runs)}
        sizes = ", ".join(f"{n} {len(t):,}" for n, (_, t) in programs.items())
        print(f"{what} (slices): {sizes}.\n")
        print(f"| variant | {' | '.join(programs)} | over the default's |")
        print("|---" * (len(programs) + 2) + "|")
        base: np.ndarray | None = None
        for variant, (labels, ratio) in VARIANTS.items():
            errors = np.array([_error(*one, labels, ratio) for one in programs.values()])
            base = errors if base is None else base
            # A difference below a hundredth of a per cent does not count.
            over = np.exp(np.mean(np.log((errors + 1e-4) / (base + 1e-4))))
            cells = " | ".join(f"{error:.2%}" for error in errors)
            print(f"| {variant} | {cells} | {over:.2f} |", flush=True)
        print()


def _error(process: Process, times: np.ndarray, labels: Labels, ratio: bool) -> float:
    """Mean over CLUSTERS and three seeds; of the slices but for the ends and each kernel's first
    call, in which the runtime compiles or loads it: no vector shows that, however it is made."""
    table = process.slices
    length = np.maximum(table["cpu_instructions"] + table["gpu_instructions"], 1).to_numpy(float)
    known = table["call"].to_numpy()[1:-1] > 1
    rows = np.flatnonzero(known) + 1
    found = []
    for seed in (1, 2, 3):
        by_k = labels(process, seed, max(CLUSTERS))
        for k in CLUSTERS:
            here = by_k[max(one for one in by_k if one <= k)][known]
            found.append(expected(here, times[rows], length[rows], ratio))
    return float(np.mean(found))


def expected(labels: np.ndarray, times: np.ndarray, length: np.ndarray, ratio: bool) -> float:
    """Root mean square error of the projection from one random slice a cluster, relative: with
    multipliers by slices, or by instructions (`ratio`; bias included)."""
    variance = bias = 0.0
    for c in range(int(labels.max()) + 1):
        own = labels == c
        if not own.any():
            continue
        weights = length[own] if ratio else np.ones(int(own.sum()))
        projected = times[own] * weights.sum() / weights
        variance += projected.var()
        bias += projected.mean() - times[own].sum()
    return float(np.sqrt(variance + bias**2) / times.sum())


SELECTIONS: dict[str, dict[str, float]] = {
    "one per cluster": {"per_cluster": 1},
    "**default (auto)**": {},
    "--target-error 0.10": {"target_error": 0.10},
    "--target-error 0.05": {"target_error": 0.05},
    "--target-error 0.02": {"target_error": 0.02},
}
BUDGETS = (0.3, 0.1)
"""Budgets, over the time of the run between start-up and exit, on top of what these two take."""


def errors(arguments: argparse.Namespace) -> None:
    """Selections that know every other timer run, on those and on the other runs; then the other
    way round. Seeds 1 to 3; those that choose the same slices count once. The last lines: how often
    targets hold for the typical times of the other runs, and the error told for a single run in
    each of these."""
    print("| program | slices | selection | k | representatives | their time, of the whole "
          "| error | error on other runs, mean | worst | interval, +- |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    held: dict[str, np.ndarray] = {}
    for name, process, runs in subjects(arguments.runs):
        found: dict[str, list[Errors]] = {}
        for known, others in ((runs[0::2], runs[1::2]), (runs[1::2], runs[0::2])):
            for way, options in _ways(known).items():
                found.setdefault(way, []).extend(_errors(process, known, others, options))
        for way, rows in found.items():
            print(f"| {name} | {runs.shape[1]:,} | {way} | {_error_cells(rows)} |", flush=True)
            target = float(way.split()[1]) if way.startswith("--target") else None
            held[way] = held.get(way, 0) + sum(row.held(target) for row in rows)
    for way, (typical, tried, inside, singles) in held.items():
        text = f"{typical:.0f} of {tried:.0f} on typical times, " if way[:5] == "--tar" else ""
        print(f"\n{way}: held {text}{inside:.0f} of {singles:.0f} in single runs as told")


@dataclass(frozen=True, eq=False)
class Errors:
    """One selection: shares of the whole; `singles`: errors in each other run, `told`: what they
    were to stay below."""

    k: int
    number: int
    cost: float
    own: float
    other: float
    width: float
    singles: np.ndarray
    told: float

    def held(self, target: float | None) -> np.ndarray:
        """(target held, 1, single runs as told, single runs)."""
        inside = int(np.count_nonzero(self.singles <= self.told))
        return np.array([target is not None and self.other <= target, 1, inside, len(self.singles)])


def _ways(known: np.ndarray) -> dict[str, dict[str, float]]:
    typical = typical_times(known)
    inner, ends = float(typical[1:-1].sum()), float(typical[0] + typical[-1])
    return SELECTIONS | {
        f"--budget: ends and {share:.0%} of the rest": {"budget": ends + share * inner}
        for share in BUDGETS
    }


def _errors(
    process: Process, known: np.ndarray, others: np.ndarray, options: dict[str, float]
) -> list[Errors]:
    """Results of the distinct selections; none where the budget cannot be kept."""
    distinct = {}
    for seed in (1, 2, 3):
        try:
            chosen = registry.select(
                from_process(process, known), registry.default(), seed=seed, **options
            )
        except XpuprofError:
            continue
        distinct[tuple(r.slice for r in chosen.representatives)] = chosen
    own, other = typical_times(known), typical_times(others)
    total = float(own.sum())
    rows = []
    for slices, chosen in distinct.items():
        answer = estimate(chosen, known)
        assert answer.high is not None
        rows.append(
            Errors(
                chosen.k,
                len(slices),
                float(own[list(slices)].sum()) / total,
                sampling_error(answer.value, total),
                sampling_error(project(chosen, other), float(other.sum())),
                (answer.high - answer.value) / total,
                np.array([sampling_error(project(chosen, t), float(t.sum())) for t in others]),
                one_run_error(chosen, known),
            )
        )
    return rows


def _error_cells(rows: list[Errors]) -> str:
    if not rows:
        return "refused: less than one representative per cluster takes |  |  |  |  |  | "
    mean = {
        name: float(np.mean([getattr(row, name) for row in rows]))
        for name in ("k", "number", "cost", "own", "other", "width")
    }
    worst = max(row.other for row in rows)
    return (
        f"{mean['k']:.0f} | {mean['number']:.0f} | {mean['cost']:.1%} | {mean['own']:.2%} | "
        f"{mean['other']:.2%} | {worst:.2%} | {mean['width']:.2%}"
    )


FEW = 3
"""Number of timer runs from which the later ones are predicted."""


def coverage(arguments: argparse.Namespace) -> None:
    """For each single timer run: does the interval of the projection hold the run's total? From
    FEW runs in a row: does it hold the total of the next run, of each later run, and the typical
    total of the later runs? One line per program, and the sums."""
    print("| profile | slices | representatives | error, worst run | half-width | own total inside "
          f"| half-width from {FEW} runs | next run inside | later runs inside "
          "| their typical total inside |")  # fmt: skip
    print("|---" * 10 + "|")
    every = []
    for name, process, runs in subjects(arguments.runs):
        row = _coverage(process, runs)
        every.append(row)
        print(f"| {name} | {len(process.slices)} | {row.text()} |", flush=True)
    print(f"| all | | {Coverage.of_all(every).text()} |")


@dataclass(frozen=True)
class Coverage:
    """Prints shares in per cent from (inside, tried)."""

    representatives: str
    worst: float
    width: float
    own: np.ndarray
    later_width: float
    next: np.ndarray
    later: np.ndarray
    typical: np.ndarray

    @staticmethod
    def of_all(rows: list[Coverage]) -> Coverage:
        """Sums of the trials, the worst error, medians of the widths."""
        return Coverage(
            "",
            max(row.worst for row in rows),
            float(np.median([row.width for row in rows])),
            sum(row.own for row in rows),
            float(np.median([row.later_width for row in rows])),
            sum(row.next for row in rows),
            sum(row.later for row in rows),
            sum(row.typical for row in rows),
        )

    def text(self) -> str:
        """The cells except the first two."""
        own, following, later, typical = (
            f"{inside} of {tried} ({inside / tried:.1%})"
            for inside, tried in (self.own, self.next, self.later, self.typical)
        )
        return (
            f"{self.representatives} | {self.worst:.2%} | {self.width:.2%} | {own} | "
            f"{self.later_width:.2%} | {following} | {later} | {typical}"
        )


def _coverage(process: Process, runs: np.ndarray) -> Coverage:
    every = {}
    for seed in range(1, 6):
        one = registry.select(from_process(process), registry.default(), seed=seed)
        # The same representatives under another seed add nothing.
        every[tuple(r.slice for r in one.representatives)] = one
    errors, widths, later_widths = [], [], []
    own, following, later, typical = np.zeros((4, 2), np.int64)
    for chosen in every.values():
        for run in runs:
            total = float(run.sum())
            answer = estimate(chosen, run)
            assert answer.low is not None and answer.high is not None
            errors.append(abs(answer.value / total - 1))
            widths.append((answer.high - answer.value) / total)
            own += answer.low <= total <= answer.high, 1
    for start in range(len(runs) - FEW):
        answer = estimate(chosen, runs[start : start + FEW], other_runs=True)
        assert answer.low is not None and answer.high is not None
        later_widths.append((answer.high - answer.value) / answer.value)
        totals = runs[start + FEW :].sum(axis=1)
        inside = (answer.low <= totals) & (totals <= answer.high)
        following += inside[0], 1
        later += np.count_nonzero(inside), len(inside)
        typical += answer.low <= np.median(totals) <= answer.high, 1
    return Coverage(
        str(len(chosen.representatives)),
        max(errors),
        float(np.mean(widths)),
        own,
        float(np.median(later_widths)),
        following,
        later,
        typical,
    )


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
    for function in (variants, errors, coverage):
        add = commands.add_parser(function.__name__)
        add.add_argument("runs", nargs="+")
        if function is variants:
            add.add_argument("--confirm", nargs="+", default=[])
        add.set_defaults(function=function)
    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
    except XpuprofError as error:
        raise SystemExit(str(error)) from error
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(f"\npeak memory of a child: {peak:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
