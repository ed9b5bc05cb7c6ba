# SPDX-License-Identifier: Apache-2.0
"""How long each kernel ran on the device, as far as the device stamped its launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np

from xpuprof.trace.pieces import pieces
from xpuprof.trace.tables import Execution, Process


@dataclass(frozen=True)
class DeviceTimes:
    """Seconds on the device by kernel name. `native`: not slowed down by an engine."""

    native: bool
    seconds: dict[str, float]

    @cached_property
    def _total(self) -> float:
        return sum(self.seconds.values()) or 1.0

    def share(self, kernel: str) -> float:
        """A kernel's share of the time of all kernels."""
        return self.seconds.get(kernel, 0.0) / self._total


def device_times(executions: Sequence[Execution]) -> DeviceTimes | None:
    """Each kernel's median over the complete timer runs. Without one that has stamps, the times of
    a partial timer run, else of another execution; None if no launch was stamped."""
    whole = [execution for execution in executions if _is_whole_timer_run(execution)]
    if stamped := [seconds for seconds in map(_seconds, whole) if seconds]:
        names = dict.fromkeys(name for seconds in stamped for name in seconds)
        return DeviceTimes(
            True, {name: median(seconds.get(name, 0.0) for seconds in stamped) for name in names}
        )
    for execution in sorted(executions, key=lambda execution: execution.role != "time"):
        if not _is_whole_timer_run(execution) and (seconds := _seconds(execution)):
            return DeviceTimes(execution.role != "profile", seconds)
    return None


def _is_whole_timer_run(execution: Execution) -> bool:
    return execution.role == "time" and execution.record.status == "complete"


def _seconds(execution: Execution) -> dict[str, float]:
    """Seconds on the device by kernel, summed over the processes; empty without stamps."""
    seconds: dict[str, float] = {}
    for process in execution.processes:
        for name, ticks in _ticks(process).items():
            seconds[name] = seconds.get(name, 0.0) + ticks / execution.record.tsc_hz
    return seconds


def _ticks(process: Process) -> dict[str, float]:
    """Ticks of the launches that count, by kernel; 9 to 12 bytes of memory a launch."""
    ticks = np.empty(process.sums.of_launches)
    work = process.recording.device_work(ticks)
    total, stamped = np.zeros(len(work.names)), False
    for piece in pieces(len(ticks)):
        known = ~np.isnan(ticks[piece])
        if process.window is not None:
            known &= process.window.ends[piece]
        stamped |= bool(known.any())
        own = work.kernel[piece][known]
        total += np.bincount(own, ticks[piece][known], minlength=len(total))
    return dict(zip(work.names, total.tolist(), strict=True)) if stamped else {}
