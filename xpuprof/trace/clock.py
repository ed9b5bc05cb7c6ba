# SPDX-License-Identifier: Apache-2.0
"""The clock in whose ticks every stamp of a trace is given, and its frequency.

It is the time stamp counter. Where that is not invariant (it would run at another rate in another
power state) it is CLOCK_MONOTONIC_RAW, which costs more a stamp.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache

from xpuprof._bridge import ffi, lib

CALIBRATION_S = 0.05
"""Shortest span over which the frequency is measured; the two readings cost some 50 ns each, so
the relative error stays near 1e-6. A finished run measures over its whole length."""


ENV_CLOCK = "XPUPROF_CLOCK"
"""Tells the program's side which clock it is (boundary.h); set by hand it forces that clock."""
TSC, RAW = "tsc", "monotonic_raw"


def source() -> str:
    """`tsc`, or `monotonic_raw` where the counter is not invariant or the variable asks for it."""
    return TSC if tsc_invariant() and os.environ.get(ENV_CLOCK) != RAW else RAW


def tsc() -> int:
    """Now, in ticks of the clock."""
    if source() == RAW:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return int(lib.xp_tsc_now())


def tsc_invariant() -> bool:
    """Does the counter run at one rate in every power state (CPUID 0x80000007, EDX bit 8)?"""
    return bool(lib.xp_tsc_invariant())


@cache
def tsc_hz() -> float:
    """Ticks a second of the clock."""
    return 1e9 if source() == RAW else Reading.now().hz()


@dataclass(frozen=True)
class Reading:
    """Both clocks at one moment: the counter, and CLOCK_MONOTONIC_RAW in nanoseconds."""

    tsc: int
    raw_ns: int

    @staticmethod
    def now() -> Reading:
        """Reads both clocks."""
        ticks, raw = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.xp_clock_pair(ticks, raw)
        return Reading(int(ticks[0]), int(raw[0]))

    def hz(self) -> float:
        """Ticks of the counter a second: from the processor (CPUID leaf 0x15) where it tells, else
        measured between this reading and now, after waiting until they are far enough apart."""
        told = int(lib.xp_tsc_hz_from_cpuid())
        if told:
            return float(told)
        later = Reading.now()
        while later.raw_ns - self.raw_ns < CALIBRATION_S * 1e9:
            time.sleep(CALIBRATION_S - (later.raw_ns - self.raw_ns) * 1e-9)
            later = Reading.now()
        return (later.tsc - self.tsc) * 1e9 / (later.raw_ns - self.raw_ns)
