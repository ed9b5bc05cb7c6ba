# SPDX-License-Identifier: Apache-2.0
"""The first N slices: the common practice of simulating a program's beginning (PKA, section 5.1,
compares with the first billion instructions)."""

from __future__ import annotations

import numpy as np

from xpuprof.errors import UsageError
from xpuprof.methods.declaration import AT_LEAST_1, Method, Option
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.design import Design
from xpuprof.selection.selection import Selection


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    n: int | None = None,
    instructions: float | None = None,
) -> Selection:
    """Select the first `n` slices, or those of the first `instructions` device instructions.

    Default: the first tenth. The rest of the run is assumed to behave alike, so every multiplier is
    slices / n. Deterministic: `seed` is only recorded. Raises NeedsError when `instructions` is
    given and the profile has no instruction counts, UsageError with both options.
    """
    count = len(profile)
    if n is not None and instructions is not None:
        raise UsageError("first-n takes n or instructions, not both")
    if instructions is not None:
        done = np.cumsum(profile.require_instructions("first-n"))
        n = int(np.searchsorted(done, instructions)) + 1
    elif n is None:
        n = max(1, count // 10)
    n = min(n, count)
    return Selection(
        method="first-n",
        parameters={"n": n},
        seed=seed,
        representatives=profile.representatives(
            np.arange(n),
            np.zeros(n, dtype=np.int64),
            np.full(n, count / n),
            np.full(n, 1.0 / n),
        ),
        labels=np.zeros(count, dtype=np.int32),
        design=Design.picked("the first N slices have no theory of their error"),
        summary=profile.summary(),
    )


METHOD = Method(
    name="first-n",
    help="The first slices: the common practice of simulating a program's beginning.",
    select=select,
    options=(
        Option("n", int, None, "Number of slices [a tenth of all].", within=AT_LEAST_1),
        Option(
            "instructions",
            float,
            None,
            "Select the slices of the first N device instructions.",
            within=AT_LEAST_1,
        ),
    ),
)
