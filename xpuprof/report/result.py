# SPDX-License-Identifier: Apache-2.0
"""Output of `run`, `time` and `profile`: representatives, times and the projection's error."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from xpuprof.report.projected import (
    SHOWN,
    accuracy_json,
    error_text,
    estimate_json,
    measured_by,
    projected_line,
    saving_json,
    saving_lines,
    shares_json,
    shares_text,
)
from xpuprof.report.representatives import (
    Column,
    representative_json,
    representatives_table,
    time_columns,
)
from xpuprof.report.text import LEGEND, count, number_of
from xpuprof.report.validation import regions_json
from xpuprof.report.warnings import notes, unstated, window_sentences
from xpuprof.trace.processes import Job
from xpuprof.trace.summary import launches_json
from xpuprof.trace.window import window_facts
from xpuprof.units import seconds
from xpuprof.workflow.evaluate import Result
from xpuprof.workflow.profile import Profiled
from xpuprof.workflow.run import Ran
from xpuprof.workflow.time import TimedRuns


def as_json(result: Result) -> dict[str, object]:
    """The object that `xpuprof run --json` prints."""
    job, selection, sums = result.job, result.selection, result.job.sums
    allotment = selection.scores.allotment
    return {
        **_run_json(result.folder, result.status, result.reason, result.exit_code),
        "slices": selection.slices,
        "window": _window_json(job),
        "settings": result.execution.record.filters,
        "method": selection.method,
        "k": selection.k,
        "representatives": [
            {
                **representative_json(r),
                "cluster": r.cluster,
                "cluster_size": int(selection.sizes[r.cluster]),
                "time_s": None if r.slice in result.untimed else result.typical.of[r.slice],
            }
            for r in selection.representatives
        ],
        "allotment": allotment and asdict(allotment),
        "measured_s": result.measured,
        "runs_s": list(result.totals),
        **estimate_json(result.estimate),
        **accuracy_json(None if unstated(result.selection, result.job) else result.accuracy),
        "unreliable": list(result.unreliable),
        "notes": [*notes(result), *result.unreliable],
        **saving_json(selection, result.time_speedup),
        "wall_s": list(result.walls),
        **shares_json(result.shares),
        "launches": _launches_json(job),
        "fallbacks": list(result.execution.record.fallbacks),
        "cpu": {
            "engine": result.execution.record.cpu_engine,
            "instructions": sums.cpu_instructions,
            "threads": sums.threads,
        },
        "gpu": {
            "engine": result.execution.record.gpu_engine,
            "instructions": sums.gpu_instructions,
            "warps": sums.warps,
        },
    }


def unfinished_json(done: Ran) -> dict[str, object]:
    """The object of a run that was cut short."""
    return _run_json(done.run.path, done.run.status, done.unfinished, done.ending.exit_code)


def _run_json(path: Path, status: str, reason: str, exit_code: int) -> dict[str, object]:
    return {"run": str(path), "status": status, "reason": reason, "exit_code": exit_code}


def profile_json(done: Profiled) -> dict[str, object]:
    """The object that `xpuprof profile --json` prints."""
    job = done.job
    return {
        **_run_json(done.run.path, done.run.status, done.run.reason, done.ending.exit_code),
        "slices": job.sums.slices,
        "window": _window_json(job),
        "processes": [key.label for key in job.keys] if job.several else [],
        "launches": _launches_json(job),
    }


def time_json(done: TimedRuns) -> dict[str, object]:
    """The object that `xpuprof time --json` prints."""
    regions = done.regions
    return {
        **_run_json(done.run.path, done.run.status, done.run.reason, done.ending.exit_code),
        "slices": done.slices,
        "seconds": list(done.seconds),
        **({"regions": regions_json(regions)} if regions is not None else {}),
    }


def _window_json(job: Job) -> dict[str, object] | None:
    window = window_facts(job.processes)
    return asdict(window) if window else None


def _launches_json(job: Job) -> dict[str, object]:
    """Launches of all processes, and why some ran uninstrumented."""
    return {**launches_json(job.sums), "uninstrumented": job.sums.uninstrumented}


def as_text(result: Result) -> str:
    """The table for people."""
    selection, times = result.selection, result.typical.of
    shown = sorted(selection.representatives, key=lambda r: -times[r.slice] * r.multiplier)[:SHOWN]
    labels = [key.label for key in result.job.keys] if result.shares else []
    columns: dict[str, Column] = {
        "cluster size": lambda r: count(int(selection.sizes[r.cluster])),
        **time_columns(times, result.untimed),
    }
    sums = result.job.sums
    record = result.execution.record
    lines = [
        *(f"{sentence}." for sentence in window_sentences(result.job)),
        number_of(selection.slices, "slice")
        + (f" of {len(result.shares)} processes" if result.shares else "")
        + f", {number_of(selection.k, 'cluster')}, method {selection.method}; "
        f"{_engine('CPU', record.cpu_engine)}, {_engine('GPU', record.gpu_engine)}, "
        f"{count(sums.instrumented)} of {count(sums.seen)} launches instrumented",
        "",
        *LEGEND,
        "",
        representatives_table(sorted(shown, key=lambda r: r.slice), labels, columns),
        *_more(len(selection.representatives) - len(shown)),
        "",
        *shares_text(result.shares),
        *_summary(result),
    ]
    return "\n".join(lines)


def _engine(side: str, name: str) -> str:
    return f"no {side} engine" if name == "none" else f"{side} engine {name}"


def _more(hidden: int) -> list[str]:
    return (
        [f"... and {count(hidden)} lighter representatives; --json has them all"] if hidden else []
    )


def _summary(result: Result) -> list[str]:
    measured, runs, selection = result.measured, result.totals, result.selection
    spread = f"{seconds(min(runs))} to {seconds(max(runs))}"
    by = measured_by(len(runs), result.shares, spread if len(runs) > 1 else "")
    none = unstated(selection, result.job)
    none = none and f"none: {none[0].lower()}{none[1:]}"
    mark = "   UNRELIABLE" if result.unreliable else ""
    lines = [
        f"measured        {seconds(measured)}   {by}",
        projected_line(result.estimate),
        f"sampling error  {none or error_text(result.accuracy) + mark}",
        *saving_lines(selection, result.time_speedup, measured),
    ]
    lines += [f"unreliable      {reason}" for reason in result.unreliable]
    if len(selection.representatives) == selection.slices and not none:
        lines.append("Every slice is its own representative, so the error is 0 by construction.")
    return [*lines, *result.execution.record.fallbacks]
