# SPDX-License-Identifier: Apache-2.0
"""Chrome's trace event format, which Perfetto and chrome://tracing show: slices, kernels by queue,
and the representatives as tracks of one run. Times are microseconds from the program's start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpuprof.errors import InputError
from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from xpuprof.formats.exporters.source import ExportSource
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.tables import Process

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


@dataclass(frozen=True)
class _Kernel:
    """A kernel on its queue; `called`: when the program launched it. Microseconds; None if not
    recorded."""

    name: str
    call: int
    grid: Sequence[int]
    queue: int
    span: tuple[float, float] | None
    called: float | None = None


@dataclass(frozen=True, eq=False)
class _Shown:
    """A process: its slices with their spans in microseconds, its queues, its kernels."""

    title: str
    slices: pd.DataFrame
    spans: npt.NDArray[np.floating]
    selection: Selection | None
    queues: Mapping[int, str]
    kernels: Iterator[_Kernel]


def write(source: ExportSource, file: Path, force: bool = False) -> list[Path]:
    """Write a timer run, a profile or an import, with tracks for every process.

    Raises UsageError when `file` exists and `force` is false, or cannot be written.
    """
    with (
        replacing(file, force) as new,
        new.open("w", encoding="utf-8", errors="backslashreplace") as out,
    ):
        out.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        separator = ""
        for event in events(source):
            out.write(separator + json.dumps(event, ensure_ascii=False))
            separator = ",\n"
        out.write("\n]}\n")
    return [file]


def events(source: ExportSource) -> Iterator[Event]:
    """The events of every process of the job: track names, then spans in order."""
    from xpuprof.trace.imported import ImportedSlices

    shown = _imported if ImportedSlices.present(source.path) else _recorded
    for number, process in enumerate(shown(source)):
        for event in _tracks(process):
            yield {**event, "pid": _PID + number}


def _recorded(source: ExportSource) -> Iterator[_Shown]:
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.selection.parts import part
    from xpuprof.trace.processes import job_of
    from xpuprof.trace.slice_times import slice_spans

    execution, selection = source.timed, source.selection_if_any
    job, scale = job_of(execution), 1e6 / execution.record.tsc_hz
    for number, process in enumerate(job.processes):
        own = selection
        if selection is not None and job.several:
            own = part(selection, number) if selection.slices == len(job.slices) else None
        origin = execution.record.tsc_start or process.meta.tsc_load
        spans = (slice_spans(execution, process, own=job.own_lives) - origin) * scale
        queues = sorted(set(process.launches["queue"].tolist()))
        yield _Shown(
            f"{process.name} ({execution.name})",
            process.slices,
            spans,
            own,
            {queue: f"queue {queue}" for queue in queues},
            _launches(process, origin, scale),
        )


def _launches(process: Process, origin: int, scale: float) -> Iterator[_Kernel]:
    columns = ("kernel", "call", "queue", "tsc_run", "dev_start", "dev_end", "gx", "gy", "gz")
    rows = zip(*(process.launches[column].tolist() for column in columns), strict=True)
    for kernel, call, queue, run, start, end, *grid in rows:
        span = ((start - origin) * scale, (end - origin) * scale) if start and end else None
        yield _Kernel(str(kernel), call, grid, queue, span, (run - origin) * scale if run else None)


def _imported(source: ExportSource) -> Iterator[_Shown]:
    """The kernels of an import where they were, or one after the other if only their durations are
    known."""
    import numpy as np

    from xpuprof.selection.parts import part
    from xpuprof.trace.imported import ImportedSlices

    imported, selection = ImportedSlices(source.path), source.selection_if_any
    if "gpu_time" not in imported.metrics:
        raise InputError(f"{source.path} holds no times of kernels, which a trace shows")
    table = imported.table().assign(gpu_time=imported.column("gpu_time"))
    slices = "time" if "time" in imported.metrics else "gpu_time"
    table["ends"] = imported.column(slices)
    if "process" not in table:
        table["process"] = 0
    several = table["process"].nunique() > 1
    for number in sorted(set(table["process"].tolist())):
        own = table[table["process"] == number]
        ends = own["ends"].cumsum().to_numpy() * 1e6
        spans = np.stack((np.concatenate(([0.0], ends[:-1])), ends), axis=1)
        start = own["start"] if "start" in own else spans[:, 1] * 1e-6 - own["gpu_time"]
        places = own[["device", "stream"]] if "device" in own else own[["process", "process"]]
        queues, names = _queues(places.to_numpy())
        chosen = selection
        if selection is not None and several:
            chosen = part(selection, number) if selection.slices == len(table) else None
        yield _Shown(
            f"process {number} ({source.path})",
            own.reset_index(drop=True),
            spans,
            chosen,
            names,
            _imported_kernels(own.assign(queue=queues, begin=start * 1e6)),
        )


def _queues(places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], dict[int, str]]:
    import numpy as np

    found, queue = np.unique(places, axis=0, return_inverse=True)
    titles = {i: f"device {d}, stream {s}" for i, (d, s) in enumerate(found.tolist()) if d >= 0}
    return queue.reshape(-1), titles


def _imported_kernels(slices: pd.DataFrame) -> Iterator[_Kernel]:
    from xpuprof.trace.coordinates import NO_KERNELS

    sizes = [name for name in ("gx", "gy", "gz") if name in slices]
    columns = (slices[c].tolist() for c in ("kernel", "call", "queue", "begin", "gpu_time", *sizes))
    for kernel, call, queue, begin, duration, *grid in zip(*columns, strict=True):
        if kernel not in NO_KERNELS:
            yield _Kernel(kernel, call, grid, queue, (begin, begin + duration * 1e6))


def _tracks(shown: _Shown) -> Iterator[Event]:
    """The events of one process."""
    from xpuprof.trace.coordinates import NO_KERNELS

    selection, time = shown.selection, shown.spans
    yield _name("process_name", _PID, 0, shown.title)
    yield _name("thread_name", _PID, _SLICES, "slices")
    if selection is not None and selection.slices != len(shown.slices):
        selection = None
    if selection is not None:
        yield _name("thread_name", _PID, _REPRESENTATIVES, "representatives")
    for queue, title in shown.queues.items():
        yield _name("thread_name", _PID, _QUEUES + queue, title)
    yield _name("thread_name", _PID, _HOST, "launch calls")

    names = shown.slices["kernel"].astype(str).tolist()
    calls = shown.slices["call"].tolist()
    for row, (name, call) in enumerate(zip(names, calls, strict=True)):
        what = NO_KERNELS.get(name) or f"{name}, call {call}"
        arguments: Event = {"slice": row, "ends with": what}
        event = _span(_SLICES, f"slice {row}", "slice", time[row, 0], time[row, 1], arguments)
        if selection is not None:
            arguments["cluster"] = int(selection.labels[row])
            event["cname"] = _COLOURS[int(selection.labels[row]) % len(_COLOURS)]
        yield event
    for r in sorted(selection.representatives, key=lambda r: r.slice) if selection else ():
        arguments = {"cluster": r.cluster, "multiplier": r.multiplier, "weight": r.weight}
        title = f"cluster {r.cluster} x {r.multiplier:.4g}"
        begin, end = time[r.slice]
        event = _span(_REPRESENTATIVES, title, "representative", begin, end, arguments)
        event["cname"] = _COLOURS[r.cluster % len(_COLOURS)]
        yield event
    for kernel in shown.kernels:
        arguments = {"call": kernel.call, "grid": kernel.grid}
        if kernel.called is not None:
            yield _instant(_HOST, f"launch {kernel.name}", kernel.called, arguments)
        if kernel.span:
            yield _span(_QUEUES + kernel.queue, kernel.name, "kernel", *kernel.span, arguments)


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
    write=lambda source, out, options: write(source, out, options.force),
    needs=Needs.RUN,
    use="open {out} in https://ui.perfetto.dev",
    aliases=("perfetto",),
)
