"""What `run` and `validate` tell: the representatives, their times, and how far they can be
trusted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.report.text import count, percent, seconds, shorten, table
from xpuprof.sampling.estimate import Estimate
from xpuprof.sampling.selection import EXIT_KERNEL, Selection
from xpuprof.sampling.times import typical_times
from xpuprof.timing.extrapolate import sampling_error, speedup
from xpuprof.trace.tables import Execution, Process

SHOWN = 24
"""Rows of the table for people; the heaviest representatives are shown."""


@dataclass(frozen=True)
class Result:
    """A profiled, timed and selected run. `times` is float64[repeats, slices], seconds."""

    folder: Path
    status: str
    reason: str
    exit_code: int
    execution: Execution
    process: Process
    selection: Selection
    times: npt.NDArray[np.float64]
    estimate: Estimate

    @property
    def measured(self) -> float:
        """Native time of the whole program, seconds: that of the median run (of two, the mean)."""
        return float(typical_times(self.times).sum())


def as_json(result: Result) -> dict[str, Any]:
    """The object that `xpuprof run --json` prints."""
    process, selection = result.process, result.selection
    slices = process.slices
    return {
        "run": str(result.folder),
        "status": result.status,
        "reason": result.reason,
        "exit_code": result.exit_code,
        "slices": selection.slices,
        "method": selection.method,
        "k": selection.k,
        "representatives": [
            {
                "slice": r.slice,
                "kernel": r.end.kernel,
                "call": r.end.call,
                "multiplier": r.multiplier,
                "cluster": r.cluster,
            }
            for r in selection.representatives
        ],
        "measured_s": result.measured,
        "runs_s": result.times.sum(axis=1).tolist(),
        "projected_s": result.estimate.value,
        "interval_s": [result.estimate.low, result.estimate.high],
        "confidence": result.estimate.confidence,
        "sampling_error": sampling_error(result.estimate.value, result.measured),
        "speedup": speedup(selection),
        "launches": launches_json(result.execution, process),
        "fallbacks": list(result.execution.record.get("fallbacks", [])),
        "cpu": {
            "engine": result.execution.record.get("cpu_engine", "none"),
            "instructions": int(slices["cpu_instructions"].sum()),
            "threads": len(process.threads),
        },
        "gpu": {
            "engine": result.execution.record.get("gpu_engine", "none"),
            "instructions": int(slices["gpu_instructions"].sum()),
            "warps": int(slices["warps"].sum()),
        },
    }


def launches_json(execution: Execution, process: Process) -> dict[str, Any]:
    """Launches of the process, why some ran uninstrumented, and those of other processes."""
    return {
        "seen": len(process.launches),
        "instrumented": int(process.launches["instrumented"].sum()),
        "uninstrumented": uninstrumented(process),
        "elsewhere": elsewhere(execution, process),
    }


def uninstrumented(process: Process) -> dict[str, int]:
    """How many launches ran uninstrumented, by reason."""
    launches = process.launches
    reasons = launches.loc[~launches["instrumented"].astype(bool), "reason"]
    return {str(reason): int(number) for reason, number in reasons.value_counts().items()}


def elsewhere(execution: Execution, process: Process) -> int:
    """Launches of the execution's other processes, which have slices of their own."""
    return sum(len(p.launches) for p in execution.processes) - len(process.launches)


def warnings(execution: Execution, process: Process) -> list[str]:
    """What the user must know about the counts, one sentence each."""
    found = [
        f"{count(number)} launches ran uninstrumented: {reason}"
        for reason, number in uninstrumented(process).items()
    ]
    if others := elsewhere(execution, process):
        found.append(
            f"{count(others)} launches of other processes are in the run directory, not in this "
            "selection; see xpuprof info"
        )
    return found


def _marker(kernel: str, call: int) -> tuple[str, str]:
    return ("program exit", "") if kernel == EXIT_KERNEL else (shorten(kernel), count(call))


def as_text(result: Result) -> str:
    """The table for people."""
    selection, mean = result.selection, typical_times(result.times)
    shown = sorted(selection.representatives, key=lambda r: -float(mean[r.slice]) * r.multiplier)[
        :SHOWN
    ]
    rows = []
    for r in sorted(shown, key=lambda r: r.slice):
        name, call = _marker(r.end.kernel, r.end.call)
        own = float(mean[r.slice])
        rows.append(
            [
                count(r.slice),
                name,
                call,
                count(int((selection.labels == r.cluster).sum())),
                f"{r.multiplier:,.4g}",
                seconds(own),
                seconds(own * r.multiplier),
            ]
        )
    headers = [
        "slice",
        "ends with kernel",
        "call",
        "cluster size",
        "multiplier",
        "slice time",
        "projected",
    ]
    launches = result.process.launches
    seen, instrumented = len(launches), int(launches["instrumented"].sum())
    record = result.execution.record
    lines = [
        f"{count(selection.slices)} slices, {selection.k} clusters, method {selection.method}; "
        f"CPU by {record.get('cpu_engine', 'none')}, GPU by {record.get('gpu_engine', 'none')}, "
        f"{count(instrumented)} of {count(seen)} launches instrumented",
        "",
        table(headers, rows, "rlrrrrr"),
        *_more(len(selection.representatives) - len(rows)),
        "",
        *_summary(result),
    ]
    return "\n".join(lines)


def _more(hidden: int) -> list[str]:
    return (
        [f"... and {count(hidden)} lighter representatives; --json has them all"] if hidden else []
    )


def no_launch(execution: Execution) -> str:
    """Why an execution has one slice only."""
    if execution.record.get("gpu_engine", "none") == "none":
        return "No GPU engine watched the program: the whole run is one slice."
    return "The program launched no kernel: the whole run is one slice."


def _summary(result: Result) -> list[str]:
    estimate, measured, runs = result.estimate, result.measured, result.times.sum(axis=1)
    selection = result.selection
    spread = (
        f"   {100 * estimate.confidence:g} % interval {seconds(estimate.low)} to "
        f"{seconds(estimate.high)}"
        if estimate.low is not None
        and estimate.high is not None
        and estimate.confidence is not None
        else f"   no interval: {estimate.basis}"
    )
    lines = [
        f"measured        {seconds(measured)}   (the middle of {len(runs)} native runs that "
        f"took {seconds(float(runs.min()))} to {seconds(float(runs.max()))})",
        f"projected       {seconds(estimate.value)}{spread}",
        f"sampling error  {percent(sampling_error(estimate.value, measured))}",
        f"speedup         {speedup(selection):.1f}x   "
        "(slices in the run for each slice to measure)",
    ]
    if len(selection.representatives) == selection.slices:
        lines.append("Every slice is its own representative, so the error is 0 by construction.")
    if not len(result.process.launches):
        lines.append(no_launch(result.execution))
    return [*lines, *result.execution.record.get("fallbacks", [])]
