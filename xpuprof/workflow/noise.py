# SPDX-License-Identifier: Apache-2.0
"""Whether timer runs differ by more than an undisturbed machine's do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpuprof.units import seconds

LARGE = 0.05
"""Standard deviation of the whole program's time over its median from which runs are disturbed.
Quiet machines stay below 2 %; pyperf warns at 10 %, but compares programs, not fractions of one."""


def disturbed(totals: Sequence[float]) -> list[str]:
    """A sentence with the remedy, if the runs' times differ too much; `totals` in seconds."""
    if len(totals) < 2:
        return []
    deviation = float(np.std(totals, ddof=1) / np.median(totals))
    if deviation <= LARGE:
        return []
    return [
        f"the native runs took {seconds(min(totals))} to {seconds(max(totals))} (standard "
        f"deviation {100 * deviation:,.0f} %), so the measured time is uncertain by more than most "
        "sampling errors; stop other work on this machine, fix its clock frequency, or raise "
        "--repeat"
    ]
