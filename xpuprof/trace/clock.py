# SPDX-License-Identifier: Apache-2.0
"""The clock that stamps a trace, and its frequency.

The time stamp counter if invariant (same rate in every power state), else CLOCK_MONOTONIC_RAW,
which costs more per stamp.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache

from xpuprof._bridge import ffi, lib

CALIBRATION_S = 0.05
"""Shortest span over which the frequency is measured. Each of the two readings takes about 50 ns,
so the relative error stays near 1e-6. A finished run measures over its whole length."""


ENV_CLOCK = "XPUPROF_CLOCK"
"""Tells the program's side which clock to use (boundary.h); set manually, it forces that clock."""
TSC, RAW = "tsc", "monotonic_raw"


def source() -> str:
    """`tsc`, or `monotonic_raw` if the counter is not invariant or the variable says so."""
    return TSC if tsc_invariant() and os.environ.get(ENV_CLOCK) != RAW else RAW


def tsc() -> int:
    """Now, in ticks of the clock."""
    if source() == RAW:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return int(lib.xp_tsc_now())


def tsc_invariant() -> bool:
    """Whether the counter runs at one rate in every power state (CPUID 0x80000007, EDX bit 8)."""
    return bool(lib.xp_tsc_invariant())


@cache
def tsc_hz() -> float:
    """The clock's ticks per second."""
    return 1e9 if source() == RAW else Reading.now().hz()


@dataclass(frozen=True)
class Reading:
    """Simultaneous readings of the counter and of CLOCK_MONOTONIC_RAW in nanoseconds."""

    tsc: int
    raw_ns: int

    @staticmethod
    def now() -> Reading:
        """Reads both clocks."""
        ticks, raw = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.xp_clock_pair(ticks, raw)
        return Reading(int(ticks[0]), int(raw[0]))

    def hz(self) -> float:
        """The counter's ticks per second: from CPUID leaf 0x15 if available, else measured between
        this reading and now, after waiting until they are far enough apart."""
        told = int(lib.xp_tsc_hz_from_cpuid())
        if told:
            return float(told)
        later = Reading.now()
        while later.raw_ns - self.raw_ns < CALIBRATION_S * 1e9:
            time.sleep(CALIBRATION_S - (later.raw_ns - self.raw_ns) * 1e-9)
            later = Reading.now()
        return (later.tsc - self.tsc) * 1e9 / (later.raw_ns - self.raw_ns)
