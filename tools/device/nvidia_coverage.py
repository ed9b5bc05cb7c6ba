# SPDX-License-Identifier: Apache-2.0
"""Compares the launches of two recordings of one program: a profile against engine `cuda`'s timer.

    python nvidia_coverage.py RUN_PROFILE RUN_TIMER

Prints how many launches each saw, how many of them carry the same kernel name and the same program
hash in the same place, and how far CUPTI's stamps precede the calls. Ends with 1 when the numbers
of launches differ.
"""

from __future__ import annotations

import sys

import xpuprof


def main() -> int:
    """Prints the comparison."""
    profiled, timed = xpuprof.open(sys.argv[1]), xpuprof.open(sys.argv[2])
    assert profiled.profile is not None
    a, b = profiled.profile.processes[0], timed.times[0].processes[0]
    n = min(len(a.launches), len(b.launches))
    same = {
        column: int((a.launches[column].to_numpy()[:n] == b.launches[column].to_numpy()[:n]).sum())
        for column in ("kernel", "program")
    }
    print(
        f"profile {len(a.launches)} launches, "
        f"{int(a.launches['instrumented'].sum())} instrumented; "
        f"timer {len(b.launches)} launches"
    )
    print(
        f"same kernel in the same place: {same['kernel']} of {n}; same program hash: "
        f"{same['program']} of {n}"
    )
    for key in (
        "clock_error_ns",
        "device_clock_early_ticks",
        "kernels_without_launch",
        "launches_without_completion",
        "activity_records_dropped",
    ):
        print(f"{key} {b.meta.get(key)}")
    for key in ("counts_without_place", "launches_not_read"):
        print(f"{key} {a.meta.get(key)}")
    return int(len(a.launches) != len(b.launches))


if __name__ == "__main__":
    sys.exit(main())
