#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the sampling methods: speed, the table of public profiles, across machines, coverage.

    tools/bench/sampling.py speed                    50 million kernel times, 1 million slices
    tools/bench/sampling.py table DATA [--repeats N] every set and method (docs/results/sampling.md)
    tools/bench/sampling.py cross DATA [--draws N]   selections of one machine on another
    tools/bench/sampling.py coverage [--draws N]     how often the intervals hold the truth
    tools/bench/sampling.py alone [--draws N]        the same from representatives alone

DATA is a folder with the sub-folders nsys, kineto and metrics of public recordings. Output is
Markdown.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from xpuprof.arrays import F64
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import estimate
from xpuprof.estimation.stratified import Partition, draw, from_labels
from xpuprof.formats.registry import recognised
from xpuprof.inputs import Source
from xpuprof.methods import allegro, photon, registry, sieve, stem_root
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.trace.coordinates import JobRow
from xpuprof.trace.imported import ImportWriter
from xpuprof.workflow.compare import Settings, compare_methods
from xpuprof.workflow.subjects import imported_profile

FOLDERS = ("nsys", "kineto", "metrics")
CHOSEN_ON = ("owlv2", "calculate_temp", "lud_diagonal")
REPORTED_ON = ("qwen", "kernel", "lud_perimeter")
"""Programs recorded on several machines: the rules of intervals for other machines were chosen on
the first half of them; the second shows how they hold."""
ACROSS: dict[str, tuple[str, dict[str, Any]]] = {
    "stem-root": ("stem-root", {"sizes": "split"}),
    "stem-root, joint": ("stem-root", {"sizes": "joint"}),
    "allegro": ("allegro", {}),
    "xpu-stem": ("xpu-stem", {}),
    "xpu-stem, least 2": ("xpu-stem", {"least": 2}),
    "xpu-stem, least 3": ("xpu-stem", {"least": 3}),
    "xpu-stem, least 3, rho 0.3": ("xpu-stem", {"least": 3, "rho": 0.3}),
    "two-phase": ("two-phase", {}),
    "ranked-set": ("ranked-set", {}),
    "random": ("random", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("speed", "table", "cross", "coverage", "alone"))
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--kernels", type=float, default=50e6)
    parser.add_argument("--slices", type=float, default=1e6)
    options = parser.parse_args()
    if options.what == "speed":
        speed(int(options.kernels), int(options.slices))
    elif options.what == "coverage":
        coverage(options.draws)
    elif options.what == "alone":
        alone(options.draws)
    elif options.data is None:
        parser.error("name the folder of recordings")
    elif options.what == "table":
        table(options.data, options.repeats)
    else:
        cross(options.data, options.draws)


def speed(kernels: int, slices: int) -> None:
    """Selection time and peak memory on synthetic profiles."""
    print("| method | slices | seconds | CPU seconds | samples | error | peak memory |")
    print("|---|---|---|---|---|---|---|")
    profile = synthetic(kernels)
    for method in (stem_root, allegro):
        report(method.__name__, method.select, profile)
    del profile
    profile = with_vectors(slices)
    for method in (photon, sieve):
        report(method.__name__, method.select, profile)


def report(name: str, select: object, profile: SliceProfile) -> None:
    begin, busy = time.perf_counter(), time.process_time()
    selection = select(profile, seed=1)  # type: ignore[operator]
    took, busy = time.perf_counter() - begin, time.process_time() - busy
    times = profile.require_times(name)
    projected = sum(times[r.slice] * r.multiplier for r in selection.representatives)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"| {name.rsplit('.', 1)[-1].rstrip('_')} | {len(profile):,} | {took:.1f} "
        f"| {busy:.1f} "
        f"| {len(selection.representatives):,} | {100 * abs(1 - projected / times.sum()):.3f} % "
        f"| {peak:.2f} GiB |",
        flush=True,
    )


def synthetic(kernels: int) -> SliceProfile:
    """200 kernel names of geometric frequency, three modes each, 5 % jitter, nanosecond clock."""
    rng = np.random.default_rng(1)
    times = np.empty(kernels)
    codes = np.empty(kernels, dtype=np.int16)
    base = rng.lognormal(3.0, 1.5, 200) * 1e-6
    for at in range(0, kernels, 1 << 20):
        count = min(1 << 20, kernels - at)
        code = np.minimum(rng.geometric(0.03, count) - 1, 199)
        mode = rng.integers(0, 3, count)
        jitter = np.exp(rng.normal(0.0, 0.05, count))
        codes[at : at + count] = code
        times[at : at + count] = np.round(base[code] * (1 + 0.7 * mode) * jitter * 1e9) * 1e-9
    frame = pd.DataFrame(
        {
            "kernel": pd.Categorical.from_codes(codes, [f"kernel_{i}" for i in range(200)]),
            "call": np.arange(1, kernels + 1, dtype=np.int32),
        },
        copy=False,
    )
    return SliceProfile(frame, times, name="synthetic")


def with_vectors(slices: int) -> SliceProfile:
    """200 kernels of 50 blocks, five behaviours each, every vector different by some per cent."""
    rng = np.random.default_rng(0)
    kernels, blocks = 200, 50
    code = rng.integers(0, kernels, slices).astype(np.int16)
    base = rng.integers(1, 10000, (kernels, 5, blocks)).astype(np.float32)
    data = np.floor(
        base[code, rng.integers(0, 5, slices)]
        * (1 + rng.normal(0, 0.02, (slices, blocks)).astype(np.float32))
    )
    index = (code[:, None].astype(np.int32) * blocks + np.arange(blocks, dtype=np.int32)).ravel()
    matrix = sparse.csr_matrix(
        (data.ravel(), index, np.arange(0, slices * blocks + 1, blocks)),
        shape=(slices, kernels * blocks),
    )
    warps = rng.choice([100.0, 1000.0, 5000.0], slices)
    instructions = data.sum(axis=1, dtype=np.float64) * warps
    frame = pd.DataFrame(
        {
            "kernel": pd.Categorical.from_codes(code, [f"kernel_{i}" for i in range(kernels)]),
            "call": np.arange(1, slices + 1),
            "lx": 256,
        }
    )
    metrics = {"gpu_instructions": instructions, "warps": warps}
    return SliceProfile(frame, instructions * 1e-9, metrics, gpu_vectors=lambda: matrix)


def sources(data: Path) -> list[tuple[str, Path]]:
    """(set, file) of every recording."""
    return [
        (path.name.split(".")[0], path)
        for folder in FOLDERS
        for path in sorted((data / folder).glob("*"))
    ]


def load(path: Path, work: Path) -> SliceProfile:
    run = work / path.name.split(".")[0]
    with ImportWriter(run) as writer:
        recognised(source := Source(path)).load(source, writer)
    return imported_profile(run)


def table(data: Path, repeats: int) -> None:
    """One row per set and method."""
    print("| set | slices | method | error | worst | time speedup | samples | interval | held |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for name, path in sources(data):
            profile = load(path, Path(work))
            for row in compare_methods(profile, registry.names(), Settings(repeats=repeats)).rows:
                if row.reason:
                    continue
                interval = "-" if row.interval_rel is None else f"{100 * row.interval_rel:.2f} %"
                held = "-" if row.coverage is None else f"{100 * row.coverage:.0f} %"
                print(
                    f"| {name} | {len(profile):,} | {row.method} "
                    f"| {100 * (row.error_mean or 0):.2f} % | {100 * (row.error_max or 0):.2f} % "
                    f"| {row.time_speedup:.1f} | {row.samples:.0f} | {interval} | {held} |",
                    flush=True,
                )


def cross(data: Path, draws: int) -> None:
    """Selections made on one machine estimate the run on another from their representatives there.

    Kineto's launches are the same where operator and its call agree (kernels have other names on
    another vendor's device): a launch's counterpart is its share of all that the operator's call
    launched there, nothing if it has none. Elsewhere kernel name and call decide.
    """
    print(
        "| selected on | applied to | method | slices | time speedup there | error | held "
        "| interval | this machine only |\n|---|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as work:
        subjects = {
            name: load(path, Path(work))
            for name, path in sources(data)
            if program(name) in CHOSEN_ON + REPORTED_ON
        }
    tried: list[tuple[str, str, Tried]] = []
    for here, profile in subjects.items():
        there = {
            other: counterpart(profile, subjects[other])
            for other in subjects
            if other != here and program(other) == program(here)
        }
        for label, (method, options) in ACROSS.items() if there else ():
            again = redraws(profile, method, options)
            for other, times in there.items():
                found = try_abroad(again, times, draws)
                tried.append((label, program(here), found))
                print(f"| {here} | {other} | {label} | {found.cells()} |", flush=True)
    for programs in (CHOSEN_ON, REPORTED_ON):
        if own := [(label, found) for label, name, found in tried if name in programs]:
            summary(programs, own)


def summary(programs: tuple[str, ...], tried: list[tuple[str, Tried]]) -> None:
    """One row per method, over the pairs of some programs."""
    pairs = len(tried) // len(ACROSS)
    print(f"\n{pairs} pairs of {', '.join(programs)}:\n")
    print("| method | pairs with interval | held | worst pair | interval | error | time speedup |")
    print("|---|---|---|---|---|---|---|")
    for label in ACROSS:
        own = [found for name, found in tried if name == label]
        told = [found for found in own if found.held is not None]
        held = [found.held for found in told if found.held is not None]
        stated = (
            f"{100 * np.mean(held):.1f} % | {100 * min(held):.0f} % "
            f"| {100 * np.median([found.width for found in told]):.1f} %"
            if held
            else "- | - | -"
        )
        speedup = len(own) / sum(1.0 / found.speedup for found in own)
        error = float(np.mean([found.error for found in own]))
        print(
            f"| {label} | {len(told)} of {pairs} | {stated} | {100 * error:.2f} % | {speedup:.0f} |"
        )


@dataclass(frozen=True)
class Tried:
    """A selection on another machine, over its draws. Fractions; `held`, `width`: of the draws with
    an interval, None without; `refused`: share of the draws for this machine only."""

    slices: float
    speedup: float
    error: float
    held: float | None
    width: float
    refused: float

    def cells(self) -> str:
        held = "-" if self.held is None else f"{100 * self.held:.1f} %"
        width = "-" if self.held is None else f"{100 * self.width:.2f} %"
        return (
            f"{self.slices:.0f} | {self.speedup:.0f} | {100 * self.error:.2f} % | {held} | {width} "
            f"| {100 * self.refused:.0f} %"
        )


def redraws(
    profile: SliceProfile, method: str, options: dict[str, Any]
) -> Callable[[int], Selection]:
    """Selections by seed; strata do not depend on it, so only the draws are made again."""
    selection = registry.select(profile, method, seed=0, **options)
    if selection.design.how != "random":
        return lambda seed: registry.select(profile, method, seed=seed, **options)
    strata = from_labels(selection.labels, profile.require_times("redraws"))
    return lambda seed: redrawn(selection, strata, np.random.default_rng(seed))


def try_abroad(again: Callable[[int], Selection], there: F64, draws: int) -> Tried:
    """`there`: the slices' times on another machine than that of the selections."""
    truth = float(there.sum())
    inside, widths, errors, cost, count = [], [], [], [], []
    for seed in range(draws):
        selection = again(seed)
        known = only_chosen(selection, there)
        answer = estimate(selection, known, elsewhere=True)
        errors.append(abs(answer.value / truth - 1.0))
        cost.append(np.nansum(known) / truth)
        count.append(np.isfinite(known).sum())
        if answer.low is not None and answer.high is not None:
            inside.append(holds(answer, truth))
            widths.append((answer.high - answer.low) / 2.0 / truth)
    return Tried(
        slices=float(np.mean(count)),
        speedup=float(1.0 / np.mean(cost)),
        error=float(np.mean(errors)),
        held=float(np.mean(inside)) if inside else None,
        width=float(np.median(widths)) if widths else 0.0,
        refused=1.0 - len(inside) / draws,
    )


def only_chosen(selection: Selection, times: F64) -> F64:
    known = np.full(len(times), np.nan)
    rows = [r.slice for r in selection.representatives]
    known[rows] = times[rows]
    return known


def holds(answer: Estimate, truth: float) -> bool:
    assert answer.low is not None and answer.high is not None
    return answer.low - 1e-9 * truth <= truth <= answer.high + 1e-9 * truth


def program(name: str) -> str:
    """`lud_perimeter` of lud_perimeter-Tesla-K40, `qwen` of qwen_h100."""
    return name.partition("-")[0] if "-" in name else name.rpartition("_")[0]


def counterpart(here: SliceProfile, there: SliceProfile) -> F64:
    """Each slice's time there."""
    own, times = keys(here), there.require_times("cross")
    total: Counter[tuple[str, float]] = Counter()
    for key, value in zip(keys(there), times.tolist(), strict=True):
        total[key] += value
    parts = Counter(own)
    return np.array([total[key] / parts[key] for key in own])


def keys(profile: SliceProfile) -> list[tuple[str, float]]:
    table = profile.slices
    name, call = ("range", "range_call") if "range_call" in table else ("kernel", "call")
    return list(zip(table[name].astype(str).tolist(), table[call].tolist(), strict=True))


def coverage(draws: int) -> None:
    """Share of draws whose interval holds the truth, on distributions with known totals: where only
    the representatives are known, and where every slice was timed."""
    print("| distribution | method | held | interval | held, all timed | interval | mean error |")
    print("|---|---|---|---|---|---|---|")
    for name, times in distributions().items():
        count = len(times)
        kernel = np.arange(count) % 8
        names_of = pd.Categorical.from_codes(kernel, [f"k{i}" for i in range(8)])
        profile = SliceProfile(pd.DataFrame({"kernel": names_of, "call": np.arange(count)}), times)
        chosen = {
            name: redraws(profile, method, options) for name, (method, options) in ACROSS.items()
        }
        labels = kernel.astype(np.int32)
        chosen["clusters"] = lambda seed, own=labels: clusters(own, np.random.default_rng(seed))
        for method, again in chosen.items():
            print(f"| {name} | {method} | {held(again, times, draws)} |", flush=True)


def held(again: Callable[[int], Selection], times: np.ndarray, draws: int) -> str:
    """The cells of one method."""
    truth = float(times.sum())
    with_all = estimate(again(0), times)
    assert with_all.high is not None
    half = with_all.high - with_all.value  # follows from the design, whatever was drawn
    inside, widths, errors = [], [], []
    for seed in range(draws):
        selection = again(seed)
        answer = estimate(selection, only_chosen(selection, times))
        if answer.low is not None and answer.high is not None:
            inside.append(holds(answer, truth))
            widths.append((answer.high - answer.low) / 2 / truth)
        errors.append(abs(answer.value - truth))
    stated = "" if len(inside) == draws else f" of {100 * len(inside) / draws:.1f} % of draws"
    by_all = np.mean(np.array(errors) <= half + 1e-9 * truth)
    return (
        f"{100 * np.mean(inside):.1f} %{stated} | {100 * np.mean(widths):.2f} % "
        f"| {100 * by_all:.1f} % | {100 * half / truth:.2f} % "
        f"| {100 * np.mean(errors) / truth:.2f} %"
    )


def alone(draws: int) -> None:
    """Intervals from representatives whose clusters nothing else is known of, on times that no rule
    was chosen on: 8 clusters of 500 slices, some of which take most of the run."""
    print("| distribution | representatives | held | too high | too low | interval |")
    print("|---|---|---|---|---|---|")
    labels = np.repeat(np.arange(8, dtype=np.int32), 500)
    for name, times in unseen().items():
        for parts in (3, 5, 10, 30):
            rng = np.random.default_rng(parts)
            low, high, widths = 0, 0, []
            for _ in range(draws):
                selection = clusters(labels, rng, parts)
                answer = estimate(selection, only_chosen(selection, times))
                assert answer.low is not None and answer.high is not None
                low += answer.low > times.sum()
                high += answer.high < times.sum()
                widths.append((answer.high - answer.low) / 2.0)
            cells = [draws - low - high, low, high]
            print(
                f"| {name} | 8 x {parts} | "
                + " | ".join(f"{100 * cell / draws:.1f} %" for cell in cells)
                + f" | {100 * np.median(widths) / times.sum():.1f} % |",
                flush=True,
            )


def unseen() -> dict[str, np.ndarray]:
    """Times of 8 clusters of 500 slices, one after the other."""
    rng, count = np.random.default_rng(77), 4000
    scale = np.repeat(rng.lognormal(1.0, 1.0, 8), 500)
    rare = np.where(rng.random(count) < 0.1, 5.0, 1.0) * rng.normal(1.0, 0.02, count)
    quick = np.where(rng.random(count) < 0.1, 0.2, 1.0) * rng.normal(1.0, 0.02, count)
    steps = rng.normal(0.0, 0.12, (8, 500)).cumsum(axis=1)
    zeros = np.where(rng.random(count) < 0.3, 0.0, rng.lognormal(0.0, 0.5, count))
    times = {
        "normal, 10 %": rng.normal(1.0, 0.1, count),
        "uniform": rng.random(count),
        "exponential": rng.exponential(1.0, count),
        "gamma 0.5": rng.gamma(0.5, 1.0, count),
        "Weibull 0.6": rng.weibull(0.6, count),
        "log-normal, sigma 0.6": rng.lognormal(0.0, 0.6, count),
        "log-normal, sigma 1.3": rng.lognormal(0.0, 1.3, count),
        "a tenth 5 times as long": rare,
        "a tenth a fifth as long": quick,
        "periodic": 1.0 + 0.5 * np.sin(np.arange(count) * 2 * np.pi / 37),
        "drifting (random walk)": np.exp(steps - steps.mean(axis=1, keepdims=True)).ravel(),
        "three tenths without time": zeros,
    }
    return {name: scale * own * 1e-6 for name, own in times.items()}


def redrawn(selection: Selection, strata: Partition, rng: np.random.Generator) -> Selection:
    """Another choice by the selection's design from its `strata`."""
    assert selection.design.strata is not None
    sizes = np.array(selection.design.strata.draws)
    rows, owner, often = draw(strata, sizes, rng, replacement=selection.design.replacement)
    multiplier = strata.size[owner] * often / sizes[owner]
    return replace(selection, representatives=_representatives(rows, owner, multiplier, often))


def clusters(labels: np.ndarray, rng: np.random.Generator, parts: int = 5) -> Selection:
    """A random slice of each of `parts` equal parts of every cluster, as the theory of clusters
    takes the one nearest to the centroid."""
    own = [np.array_split(np.flatnonzero(labels == c), parts) for c in range(labels.max() + 1)]
    rows = [int(rng.choice(part)) for cluster in own for part in cluster]
    size = [float(len(part)) for cluster in own for part in cluster]
    owner = np.repeat(np.arange(len(own)), parts)
    ones = np.ones(len(rows), dtype=np.int64)
    chosen = _representatives(np.array(rows), owner, np.array(size), ones)
    return Selection("clusters", {}, 0, chosen, labels)


def _representatives(
    rows: np.ndarray, owner: np.ndarray, multiplier: np.ndarray, often: np.ndarray
) -> tuple[Representative, ...]:
    return tuple(
        Representative(JobRow(row), Marker("k", 1), None, own, m, 0.0, n)
        for row, own, m, n in zip(
            rows.tolist(), owner.tolist(), multiplier.tolist(), often.tolist(), strict=True
        )
    )


def distributions(count: int = 4000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    modes = rng.choice([1.0, 3.0, 10.0], count, p=[0.7, 0.25, 0.05])
    return {
        "constant": np.full(count, 3e-6),
        "normal, 5 %": rng.normal(1.0, 0.05, count) * 1e-5,
        "multi-modal": modes * np.exp(rng.normal(0, 0.05, count)) * 1e-6,
        "skewed (log-normal, sigma 1)": rng.lognormal(0, 1.0, count) * 1e-6,
        "heavy tail (Pareto 2.5)": (1 + rng.pareto(2.5, count)) * 1e-6,
    }


if __name__ == "__main__":
    main()
