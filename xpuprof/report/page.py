# SPDX-License-Identifier: Apache-2.0
"""A run as one self-contained HTML page: slices over time, clusters, representatives, kernels.

The page holds its data and its scripts (assets/), so it opens anywhere, without a network.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.estimation.projection import sampling_error, slice_reduction
from xpuprof.report.kernel_names import brief
from xpuprof.report.projected import bounds
from xpuprof.report.text import amount, count, of_runs, percent
from xpuprof.report.warnings import warnings
from xpuprof.trace.coordinates import NO_KERNELS
from xpuprof.version import __version__
from xpuprof.workflow.overview import INSTRUCTIONS, Overview, Projected

MOST_POINTS = 200_000
"""Slices drawn; of longer runs every n-th and all representatives."""

_DIGITS = 6
Facts = list[tuple[str, str]]


def write_page(found: Overview, target: Path) -> None:
    """Writes the page."""
    assets = files("xpuprof.report") / "assets"
    parts = {
        "title": html.escape(_title(found)),
        "subtitle": html.escape(_subtitle(found)),
        "facts": "".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>"
            for name, text in _facts(found)
        ),
        "warnings": "".join(f"<li>{html.escape(text)}</li>" for text in _warnings(found)),
        # "</script>" in a kernel's name must not end the script.
        "data": json.dumps(_data(found), separators=(",", ":")).replace("</", "<\\/"),
        "settings": html.escape(_settings(found)),
        "version": __version__,
    }
    for name in ("page.css", "page.js", "uPlot.min.css", "uPlot.iife.min.js"):
        parts[name] = (assets / name).read_text(encoding="utf-8")
    page = (assets / "page.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{([\w.]+)\}\}", lambda found: parts[found[1]], page)
    target.write_text(page, encoding="utf-8")


def _title(found: Overview) -> str:
    return shlex.join(found.argv) or found.folder.name


def _subtitle(found: Overview) -> str:
    reason = f": {found.reason}" if found.reason else ""
    return f"{found.folder}, {found.status}{reason}"


def _warnings(found: Overview) -> list[str]:
    return warnings(found.job) if found.job else []


def _facts(found: Overview) -> Facts:
    """The numbers at the head of the page."""
    facts: Facts = [("slices", count(len(found.slices))), ("kernels", count(len(found.kernels)))]
    selection = found.selection
    if selection is not None:
        facts += [
            ("method", selection.method),
            ("clusters", count(selection.k)),
            ("representatives", count(len(selection.representatives))),
            ("slice reduction", times_over(slice_reduction(selection))),
        ]
    if found.totals:
        total = float(found.slices["value"].sum())
        by = of_runs(len(found.totals)) if found.job else "imported"
        facts.append((f"measured, {by}", amount(total, found.metric)))
    if found.projected:
        facts += _projected_facts(found.projected, found.metric)
    return facts


def times_over(value: float) -> str:
    """`14.4x`."""
    return f"{value:,.4g}x"


def _projected_facts(projected: Projected, metric: str) -> Facts:
    estimate = projected.estimate
    facts = [
        ("projected", amount(estimate.value, metric)),
        ("sampling error", percent(sampling_error(estimate.value, projected.measured))),
        ("time speedup", times_over(projected.time_speedup)),
    ]
    if estimate.confidence is not None:
        facts.insert(1, (f"{estimate.confidence:.0%} interval", bounds(estimate, metric)))
    return facts


def _settings(found: Overview) -> str:
    """Engines, filters and the method's parameters, one a line."""
    lines = []
    if found.job:
        record = found.job.execution.record
        lines += [f"CPU engine: {record.cpu_engine}", f"GPU engine: {record.gpu_engine}"]
        lines += [f"{name}: {value}" for name, value in record.filters.items() if value]
    if found.selection:
        lines.append(f"seed: {found.selection.seed}")
        lines += [f"{name}: {value}" for name, value in found.selection.parameters.items()]
    return "\n".join(lines)


# ---- data of the scripts ------------------------------------------------------------------------


def _rounded(values: npt.ArrayLike) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values, float).tolist()]


def _data(found: Overview) -> dict[str, object]:
    slices, selection = found.slices, found.selection
    labels = selection.labels if selection else np.zeros(len(slices), np.int32)
    chosen = np.array([r.slice for r in selection.representatives] if selection else [], np.int64)
    rows = _drawn(len(slices), chosen)
    kernels = [str(name) for name in found.kernels.index]
    number = {name: i for i, name in enumerate(kernels)}
    codes = np.array([number[name] for name in slices["kernel"]], np.int64)
    shown = slices.iloc[rows]
    return {
        "metric": found.metric,
        "unit": "s" if found.metric.endswith("time") else found.metric,
        "clustered": selection is not None,
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
        "names": [[NO_KERNELS.get(name) or brief(name), name] for name in kernels],
        "kernels": _kernels(found, codes, labels),
        "clusters": _clusters(found, codes),
        "representatives": _representatives(found, number),
    }


def _drawn(slices: int, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The slices that are drawn: every n-th, and the representatives."""
    every = max(1, -(-slices // MOST_POINTS))
    return np.union1d(np.arange(0, slices, every), chosen)


def _starts(slices: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Where each slice starts: seconds (or cycles) into its process; its number without times."""
    if "value" not in slices:
        return np.arange(len(slices), dtype=np.float64)
    before = slices["value"].cumsum() - slices["value"]
    if "process" in slices:
        before -= before.groupby(slices["process"], sort=False).transform("first")
    return before.to_numpy(float)


def _kernels(
    found: Overview, codes: npt.NDArray[np.int64], labels: npt.NDArray[np.int32]
) -> list[dict[str, object]]:
    """One row a kernel, with its slices in each cluster."""
    inside: list[list[list[int]]] = [[] for _ in range(len(found.kernels))]
    pairs, numbers = np.unique(np.stack([codes, labels]), axis=1, return_counts=True)
    for (kernel, cluster), n in zip(pairs.T.tolist(), numbers.tolist(), strict=True):
        inside[kernel].append([cluster, n])
    columns = {
        ("total" if name == "value" else str(name)): found.kernels[name].tolist()
        for name in found.kernels
    }
    return [
        {
            "kernel": kernel,
            "clusters": inside[kernel],
            **{name: values[kernel] for name, values in columns.items()},
        }
        for kernel in range(len(found.kernels))
    ]


def _clusters(found: Overview, codes: npt.NDArray[np.int64]) -> list[dict[str, object]]:
    """One row a cluster: its share, its spread, its part of the error, its main kernel."""
    if found.selection is None or found.projected is None:
        return []
    total = found.projected.measured
    rows: list[dict[str, object]] = []
    for part in found.projected.contributions:
        own = codes[found.selection.labels == part.cluster]
        rows.append(
            {
                "cluster": part.cluster,
                "kernel": int(np.bincount(own).argmax()),
                "slices": part.slices,
                "representatives": part.representatives,
                "share": part.measured / total,
                "spread": part.spread,
                "error": (part.projected - part.measured) / total,
                "gain": part.gain / total,
            }
        )
    return rows


def _representatives(found: Overview, number: dict[str, int]) -> list[dict[str, object]]:
    if found.selection is None:
        return []
    values = found.slices["value"].to_numpy() if "value" in found.slices else None
    kernels = found.slices["kernel"].tolist()
    return [
        {
            "slice": int(r.slice),
            "kernel": number[kernels[r.slice]],
            "call": r.end.call,
            "cluster": r.cluster,
            "multiplier": r.multiplier,
            **({} if values is None else {"value": float(values[r.slice])}),
        }
        for r in found.selection.representatives
    ]
