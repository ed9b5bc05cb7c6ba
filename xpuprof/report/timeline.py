# SPDX-License-Identifier: Apache-2.0
"""A replayed timeline: as JSON and as text."""

from __future__ import annotations

from xpuprof.estimation.timeline import Timeline
from xpuprof.report.kernel_names import shorten
from xpuprof.report.projected import estimate_json, interval
from xpuprof.report.text import count, percent, table
from xpuprof.units import seconds

SHOWN = 10
"""Kernels of the critical path for people; --json has them all."""


def as_json(timeline: Timeline) -> dict[str, object]:
    """The timeline that `xpuprof estimate --timeline --json` prints."""
    return {
        "recorded_s": timeline.recorded,
        "recreated_s": timeline.recreated,
        **estimate_json(timeline.makespan),
        "critical_path": [
            {"kernel": step.kernel, "calls": step.calls, "seconds": step.seconds}
            for step in timeline.path
        ],
        "waiting_s": timeline.waiting,
        "busy": {str(device): share for device, share in timeline.busy.items()},
        "lacks": list(timeline.lacks),
    }


def as_text(timeline: Timeline) -> str:
    """Length, busy devices, critical path, and what the recording lacks."""
    whole = timeline.makespan.value
    difference = abs(timeline.recreated / timeline.recorded - 1.0)
    busy = ", ".join(f"device {device} {percent(share)}" for device, share in timeline.busy.items())
    rows = [
        [
            shorten(step.kernel),
            count(step.calls),
            seconds(step.seconds),
            percent(step.seconds / whole),
        ]
        for step in timeline.path[:SHOWN]
    ]
    rows.append(
        ["outside kernels", "", seconds(timeline.waiting), percent(timeline.waiting / whole)]
    )
    return "\n".join(
        [
            f"recorded length {seconds(timeline.recorded)}   "
            f"(replayed with the recorded times {percent(difference)} off)",
            f"replayed length {seconds(whole)}   {interval(timeline.makespan)}",
            f"busy            {busy}",
            "",
            table(["critical path", "calls", "time", "share"], rows, "lrrr"),
            *(["", *timeline.lacks] if timeline.lacks else []),
        ]
    )
