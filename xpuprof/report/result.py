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
        """Native time of the whole program, seconds: the sum of the slices' typical times."""
        return float(typical_times(self.times).sum())


def as_json(result: Result) -> dict[str, Any]:
    """The object that `xpuprof run --json` prints."""
    process, selection = result.process, result.selection
    slices, launches = process.slices, process.launches
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
        "launches": {"seen": len(launches), "instrumented": int(launches["instrumented"].sum())},
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


def _marker(kernel: str, call: int) -> tuple[str, str]:
    return ("program exit", "") if kernel == EXIT_KERNEL else (shorten(kernel), count(call))


def as_text(result: Result) -> str:
    """The table for people."""
    selection, mean = result.selection, typical_times(result.times)
    rows = []
    for r in selection.representatives:
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
        "cluster",
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
        "",
        *_summary(result),
    ]
    return "\n".join(lines)


def _summary(result: Result) -> list[str]:
    estimate, measured, runs = result.estimate, result.measured, result.times.sum(axis=1)
    spread = (
        f"   {percent(estimate.confidence)} interval {seconds(estimate.low)} to "
        f"{seconds(estimate.high)}"
        if estimate.low is not None
        and estimate.high is not None
        and estimate.confidence is not None
        else f"   no interval: {estimate.basis}"
    )
    lines = [
        f"measured        {seconds(measured)}   (slice by slice, of {len(runs)} native runs that "
        f"took {seconds(float(runs.min()))} to {seconds(float(runs.max()))})",
        f"projected       {seconds(estimate.value)}{spread}",
        f"sampling error  {percent(sampling_error(estimate.value, measured))}",
        f"speedup         {speedup(result.selection):.1f}x   "
        "(slices in the run for each slice to measure)",
    ]
    if not len(result.process.launches):
        lines.append("The program launched no kernel: the whole run is one slice.")
    return lines
