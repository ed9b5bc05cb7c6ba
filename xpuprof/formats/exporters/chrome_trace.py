# SPDX-License-Identifier: Apache-2.0
"""Chrome's trace event format, which Perfetto and chrome://tracing show: slices, kernels by queue,
and the representatives as tracks of one run. Times are microseconds from the program's start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from xpuprof.selection.selection import Selection
    from xpuprof.trace.tables import Execution, Process

Event = dict[str, Any]
"""A trace event, or its arguments, as the format has them."""

_PID = 1
_SLICES, _REPRESENTATIVES, _HOST, _QUEUES = 1, 2, 3, 10
_COLOURS = (
    "thread_state_running", "thread_state_iowait", "rail_response", "rail_animation", "rail_idle",
    "rail_load", "cq_build_passed", "cq_build_failed", "thread_state_runnable", "good", "bad",
    "terrible", "generic_work", "startup",
)  # fmt: skip
"""Colour names reserved by the format; a cluster has the same colour everywhere."""


def write(
    execution: Execution, selection: Selection | None, file: Path, force: bool = False
) -> list[Path]:
    """Write a timer run (or a profile), with tracks for every process.

    Raises UsageError when `file` exists and `force` is false, or cannot be written.
    """
    with (
        replacing(file, force) as new,
        new.open("w", encoding="utf-8", errors="backslashreplace") as out,
    ):
        out.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        separator = ""
        for event in events(execution, selection):
            out.write(separator + json.dumps(event, ensure_ascii=False))
            separator = ",\n"
        out.write("\n]}\n")
    return [file]


def events(execution: Execution, selection: Selection | None) -> Iterator[Event]:
    """The events of every process of the job: track names, then spans in order."""
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.selection.parts import part
    from xpuprof.trace.processes import job_of
    from xpuprof.trace.slice_times import slice_spans

    job = job_of(execution)
    for number, process in enumerate(job.processes):
        own = selection
        if selection is not None and job.several:
            own = part(selection, number) if selection.slices == len(job.slices) else None
        spans = slice_spans(execution, process, own=job.several)
        for event in _tracks(execution, process, own, spans):
            yield {**event, "pid": _PID + number}


def _tracks(
    execution: Execution,
    process: Process,
    selection: Selection | None,
    spans: npt.NDArray[np.int64],
) -> Iterator[Event]:
    """The events of one process, whose slices begin and end at `spans` (ticks)."""
    from xpuprof.trace.coordinates import NO_KERNELS

    scale = 1e6 / execution.record.tsc_hz
    origin = execution.record.tsc_start or process.meta.tsc_load
    time = (spans - origin) * scale
    yield _name("process_name", _PID, 0, f"{process.name} ({execution.name})")
    yield _name("thread_name", _PID, _SLICES, "slices")
    fits = selection is not None and selection.slices == len(process.slices)
    if fits:
        yield _name("thread_name", _PID, _REPRESENTATIVES, "representatives")
    launches = process.launches
    queues = sorted(set(launches["queue"].tolist()))
    for queue in queues:
        yield _name("thread_name", _PID, _QUEUES + queue, f"queue {queue}")
    yield _name("thread_name", _PID, _HOST, "launch calls")

    labels = selection.labels if fits and selection is not None else None
    names = process.slices["kernel"].astype(str).tolist()
    calls = process.slices["call"].tolist()
    for row, (kernel, call) in enumerate(zip(names, calls, strict=True)):
        what = NO_KERNELS.get(kernel) or f"{kernel}, call {call}"
        arguments: Event = {"slice": row, "ends with": what}
        event = _span(_SLICES, f"slice {row}", "slice", time[row, 0], time[row, 1], arguments)
        if labels is not None:
            arguments["cluster"] = int(labels[row])
            event["cname"] = _COLOURS[int(labels[row]) % len(_COLOURS)]
        yield event
    if fits and selection is not None:
        for r in sorted(selection.representatives, key=lambda r: r.slice):
            arguments = {"cluster": r.cluster, "multiplier": r.multiplier, "weight": r.weight}
            title = f"cluster {r.cluster} x {r.multiplier:.4g}"
            event = _span(
                _REPRESENTATIVES,
                title,
                "representative",
                time[r.slice, 0],
                time[r.slice, 1],
                arguments,
            )
            event["cname"] = _COLOURS[r.cluster % len(_COLOURS)]
            yield event
    columns = ("kernel", "call", "queue", "tsc_run", "dev_start", "dev_end", "gx", "gy", "gz")
    for kernel, call, queue, run, start, end, *grid in zip(
        *(launches[c].tolist() for c in columns), strict=True
    ):
        arguments = {"call": call, "grid": grid}
        if run:
            at = (run - origin) * scale
            yield _instant(_HOST, f"launch {kernel}", at, arguments)
        if start and end:
            yield _span(
                _QUEUES + queue,
                str(kernel),
                "kernel",
                (start - origin) * scale,
                (end - origin) * scale,
                arguments,
            )


def _name(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _span(tid: int, name: str, category: str, start: float, end: float, arguments: Event) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": _PID,
        "tid": tid,
        "ts": round(float(start), 3),
        "dur": round(max(float(end - start), 0.0), 3),
        "args": arguments,
    }


def _instant(tid: int, name: str, at: float, arguments: Event) -> Event:
    return {
        "ph": "i",
        "s": "t",
        "name": name,
        "cat": "launch",
        "pid": _PID,
        "tid": tid,
        "ts": round(at, 3),
        "args": arguments,
    }


FORMAT = Exporter(
    name="chrome",
    help="OUT, Chrome/Perfetto trace of the run",
    write=lambda source, out, options: write(
        source.timed, source.selection_if_any, out, options.force
    ),
    needs=Needs.RUN,
    aliases=("perfetto",),
)
