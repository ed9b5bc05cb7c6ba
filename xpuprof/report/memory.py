"""What the user must know about stack distances of device accesses (docs/memory.md)."""

from __future__ import annotations

from typing import Any

from xpuprof.report.text import number_of

_WHY = {
    "in_part": "recorded in part: room was short, or the next replay came too soon",
    "beyond": "with accesses that cannot be recorded (pipes, some of images)",
    "forgot": "with lines forgotten, for there were too many",
}


def missing_distances(memory: dict[str, Any]) -> list[str]:
    """Of a run's summary of memory (`trace.summary.memory_summary`): what is not in the distances,
    one phrase a reason; empty where nothing is missing or nothing was recorded."""
    device = memory.get("device", {})
    return [
        f"{number_of(device[key], 'launch')} {why}" for key, why in _WHY.items() if device.get(key)
    ]
