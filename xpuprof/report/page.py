# SPDX-License-Identifier: Apache-2.0
"""Runs as one self-contained HTML page: slices over time, clusters, representatives, kernels."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.engines.filters import Filters
from xpuprof.errors import UsageError
from xpuprof.estimation.projection import chosen_slices, rows_of, slice_reduction
from xpuprof.methods import registry
from xpuprof.report.projected import error_details, interval
from xpuprof.report.self_contained import Fact, Head, write
from xpuprof.report.text import amount, count, number_of, of_runs, percent, times_less
from xpuprof.report.warnings import unstated, warnings, window_sentences
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS
from xpuprof.trace.kernel_names import brief
from xpuprof.workflow.overview import INSTRUCTIONS, Overview

MOST_POINTS = 200_000
"""Slices drawn; of longer runs every n-th and all representatives."""

_DIGITS = 6


def write_page(runs: Sequence[Overview], target: Path) -> None:
    """Writes the page of a run, or of several beside each other."""
    names = _names(runs)
    several = len(runs) > 1
    head = _head_of_several(runs, names) if several else _head(runs[0])
    most = MOST_POINTS // len(runs)
    shown = [_data(run, name, most) for run, name in zip(runs, names, strict=True)]
    write(target, "runs", head, {"runs": shown})


def _names(runs: Sequence[Overview]) -> list[str]:
    """Folders' names, or their paths where names are the same."""
    names = [run.folder.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder) for run in runs]


def _title(run: Overview) -> str:
    if not run.argv:
        return run.folder.name
    return shlex.join([Path(run.argv[0]).name, *run.argv[1:]])


def _head(run: Overview) -> Head:
    return Head(_title(run), f"{run.folder}, {run.status}", _facts(run), _notes(run))


def _head_of_several(runs: Sequence[Overview], names: Sequence[str]) -> Head:
    titles = {_title(run) for run in runs}
    notes = [
        f"{name}: {sentence}"
        for run, name in zip(runs, names, strict=True)
        for sentence in _notes(run)
    ]
    return Head(
        titles.pop() if len(titles) == 1 else number_of(len(runs), "run"),
        ", ".join(names),
        (),
        notes,
    )


def _notes(run: Overview) -> list[str]:
    found = [*run.doubts, *run.unreliable]
    return [*window_sentences(run.job), *found, *warnings(run.job)] if run.job else found


def _facts(run: Overview) -> list[Fact]:
    """The numbers at the head of the page."""
    facts, selection = _measured(run), run.selection
    kernels = sum(name not in NO_KERNELS for name in run.kernels.index)
    facts += [_number("slices", len(run.slices)), _number("kernels", kernels)]
    if selection is not None:
        reduced = f"{count(selection.slices)} to {count(len(chosen_slices(selection)))}"
        facts += [
            _word("method", selection.method),
            _number("clusters", selection.k),
            _number("representatives", len(selection.representatives)),
            Fact("slice reduction", reduced, slice_reduction(selection)),
        ]
    if run.job:
        record, sums = run.job.execution.record, run.job.sums
        facts += [_word("CPU engine", record.cpu_engine), _word("GPU engine", record.gpu_engine)]
        if record.role == "profile":
            launches = f"{count(sums.instrumented)} of {count(sums.seen)}"
            facts.append(Fact("launches instrumented", launches, sums.instrumented))
    return facts


def _number(name: str, value: int) -> Fact:
    return Fact(name, count(value), value)


def _word(name: str, value: str) -> Fact:
    return Fact(name, value, value)


def _measured(run: Overview) -> list[Fact]:
    """Error, speedup and times."""
    if not run.totals:
        return []
    total = float(run.slices["value"].sum())
    whole = amount(total, run.metric)
    by = of_runs(len(run.totals)) if run.job else "imported"
    if len(run.totals) > 1:
        by += f" ({amount(min(run.totals), run.metric)} to {amount(max(run.totals), run.metric)})"
    measured = Fact("measured", whole, total, by, large=True)
    found = run.projection
    if found is None or found.accuracy is None or run.selection is None:
        return [measured]
    none = unstated(run.selection, run.job) if run.job else ""
    error = Fact(
        "sampling error",
        "none" if none else percent(found.accuracy.error),
        found.accuracy.error,
        none or error_details(found.accuracy),
        "UNRELIABLE" * bool(run.unreliable and not none),
        large=True,
    )
    projected = Fact(
        "projected",
        amount(found.estimate.value, run.metric),
        found.estimate.value,
        interval(found.estimate, run.metric),
        large=True,
    )
    if not np.isfinite(found.time_speedup):
        return [error, projected, measured]
    part = amount(total / found.time_speedup, run.metric)
    speedup = Fact(
        "time speedup",
        times_less(found.time_speedup),
        found.time_speedup,
        f"{whole} to {part}",
        large=True,
    )
    return [error, speedup, projected, measured]


def _settings(run: Overview) -> list[tuple[str, str]]:
    """Filters, seed, and the method's options as the command line names them."""
    lines = []
    if run.job:
        filters = Filters.read(run.job.execution.record.filters).text()
        lines += [("filters", filters)] if filters else []
    if run.selection:
        lines.append(("--seed", str(run.selection.seed)))
        lines += _options(run.selection)
    return lines


def _options(selection: Selection) -> list[tuple[str, str]]:
    """The method's options that were in effect."""
    try:
        method = registry.find(selection.method)
    except UsageError:  # of a package that is not installed here
        method = None
    named = []
    for name, value in selection.parameters.items():
        if value is not None:
            option = method.option(name) if method else None
            flag = option.flags[0].partition("/")[0] if option and option.flags else f"--set {name}"
            named.append((flag, _shown(value)))
    return named


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


# ---- data of the scripts ------------------------------------------------------------------------


def _rounded(values: npt.ArrayLike) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values, float).tolist()]


def _data(run: Overview, name: str, most: int) -> dict[str, object]:
    slices, selection = run.slices, run.selection
    labels = selection.labels if selection else np.zeros(len(slices), np.int32)
    chosen = rows_of(selection) if selection else np.empty(0, np.int64)
    rows = _drawn(len(slices), chosen, most)
    kernels = [str(kernel) for kernel in run.kernels.index]
    number = {kernel: i for i, kernel in enumerate(kernels)}
    codes = np.array([number[kernel] for kernel in slices["kernel"]], np.int64)
    shown, pairs = slices.iloc[rows], _pairs(codes, labels)
    return {
        "name": name,
        "facts": [[one.name, f"{one.text} {one.mark}".strip(), one.value] for one in _facts(run)],
        "metric": run.metric,
        "unit": "s" if run.metric.endswith("time") else run.metric,
        "clustered": selection is not None,
        "settings": _settings(run),
        "slices": {
            "total": len(slices),
            "index": rows.tolist(),
            "start": _rounded(_starts(slices)[rows]),
            "kernel": codes[rows].tolist(),
            "call": shown["call"].tolist() if "call" in shown else None,
            "process": shown["process"].tolist() if "process" in shown else None,
            "cluster": labels[rows].tolist(),
            "value": _rounded(shown["value"]) if "value" in shown else None,
            **{name: shown[name].tolist() if name in shown else None for name in INSTRUCTIONS},
        },
        "names": [[NO_KERNELS.get(kernel) or brief(kernel), kernel] for kernel in kernels],
        "launched": [kernel not in NO_KERNELS for kernel in kernels],
        "kernels": _kernels(run, pairs),
        "clusters": _clusters(run, pairs),
        "representatives": _representatives(run, number),
    }


def _drawn(slices: int, chosen: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """The slices that are drawn: every n-th, and the representatives."""
    every = max(1, -(-slices // most))
    return np.union1d(np.arange(0, slices, every), chosen)


def _starts(slices: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Where each slice starts: seconds (or cycles) into its process; its number without times."""
    if "value" not in slices:
        return np.arange(len(slices), dtype=np.float64)
    before = slices["value"].cumsum() - slices["value"]
    if "process" in slices:
        before -= before.groupby(slices["process"], sort=False).transform("first")
    return before.to_numpy(float)


@dataclass(frozen=True)
class _Pair:
    """A kernel's slices in a cluster."""

    kernel: int
    cluster: int
    slices: int


def _pairs(codes: npt.NDArray[np.int64], labels: npt.NDArray[np.int32]) -> list[_Pair]:
    (kernels, clusters), numbers = np.unique(np.stack([codes, labels]), axis=1, return_counts=True)
    columns = kernels.tolist(), clusters.tolist(), numbers.tolist()
    return [_Pair(*pair) for pair in zip(*columns, strict=True)]


def _kernels(run: Overview, pairs: Sequence[_Pair]) -> list[dict[str, object]]:
    """One row a kernel, with its slices in each cluster."""
    inside: list[list[list[int]]] = [[] for _ in range(len(run.kernels))]
    for pair in pairs:
        inside[pair.kernel].append([pair.cluster, pair.slices])
    columns = {
        ("total" if name == "value" else str(name)): run.kernels[name].tolist()
        for name in run.kernels
    }
    return [
        {
            "kernel": kernel,
            "clusters": inside[kernel],
            **{name: values[kernel] for name, values in columns.items()},
        }
        for kernel in range(len(run.kernels))
    ]


def _clusters(run: Overview, pairs: Sequence[_Pair]) -> list[dict[str, object]]:
    """One row a cluster: its main kernel and, with times, its share, its spread and its part of the
    error."""
    selection, found = run.selection, run.projection
    if selection is None:
        return []
    chosen = Counter(r.cluster for r in selection.representatives)
    rows: dict[int, dict[str, Any]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.slices):  # the last is the main kernel
        before = rows.get(pair.cluster, {"slices": 0})
        rows[pair.cluster] = {
            "cluster": pair.cluster,
            "kernel": pair.kernel,
            "slices": before["slices"] + pair.slices,
            "representatives": chosen[pair.cluster],
        }
    for part in run.contributions:
        assert found
        rows[part.cluster] |= {
            "share": part.measured / found.measured,
            "spread": part.spread,
            "error": (part.projected - part.measured) / found.measured,
            "gain": part.gain / found.measured,
        }
    return list(rows.values())


def _representatives(run: Overview, number: dict[str, int]) -> list[dict[str, object]]:
    if run.selection is None:
        return []
    values = run.slices["value"].to_numpy() if "value" in run.slices else None
    kernels = run.slices["kernel"].tolist()
    return [
        {
            "slice": int(r.slice),
            "kernel": number[kernels[r.slice]],
            "call": r.end.call,
            "cluster": r.cluster,
            "multiplier": r.multiplier,
            **({} if values is None else {"value": float(values[r.slice])}),
        }
        for r in run.selection.representatives
    ]
