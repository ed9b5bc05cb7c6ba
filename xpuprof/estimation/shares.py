# SPDX-License-Identifier: Apache-2.0
"""Each process's share of a selection's time, measured and projected.

A job's time is the sum of its processes' times: every slice counts once, multipliers project it,
and no process hides behind a longer one. The job's elapsed time is at least that of its slowest
process, which is reported as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import estimate_part
from xpuprof.estimation.projection import sampling_error
from xpuprof.selection.selection import Selection
from xpuprof.trace.kinds import Key


@dataclass(frozen=True)
class Share:
    """A process of a job with its measured and projected time, seconds."""

    key: Key
    measured: float
    estimate: Estimate

    @property
    def error(self) -> float:
        """Sampling error, a fraction."""
        return sampling_error(self.estimate.value, self.measured)


def shares_of(
    keys: Sequence[Key], selection: Selection, times: npt.NDArray[np.float64]
) -> tuple[Share, ...]:
    """Each process's share; empty for one process. `keys` in slice order; `times`: float64[slices],
    typical ones in seconds."""
    if len(keys) < 2:
        return ()
    ends = np.cumsum([key.slices for key in keys])
    return tuple(
        Share(
            key,
            measured=float(times[end - key.slices : end].sum()),
            estimate=estimate_part(selection, times, slice(end - key.slices, end)),
        )
        for key, end in zip(keys, ends.tolist(), strict=True)
    )


def slowest(shares: Sequence[Share]) -> dict[str, float] | None:
    """The longest measured and the longest projected process time, seconds; None for one
    process."""
    if not shares:
        return None
    return {
        "measured_s": max(share.measured for share in shares),
        "projected_s": max(share.estimate.value for share in shares),
    }
