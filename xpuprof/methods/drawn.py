# SPDX-License-Identifier: Apache-2.0
"""Random selections from strata; methods differ in how they form the strata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xpuprof.arrays import I64
from xpuprof.estimation.quantiles import z_score
from xpuprof.estimation.stratified import Partition, draw, error_bound
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.design import Design
from xpuprof.selection.selection import Selection


def select(
    profile: SliceProfile,
    strata: Partition,
    sizes: I64,
    *,
    method: str,
    parameters: Mapping[str, Any],
    seed: int,
    replacement: bool,
    basis: str,
    confidence: float,
    simulated: tuple[float, float] | None = None,
) -> Selection:
    """Draw `sizes[i]` slices of stratum i and give each the multiplier N_i draws / m_i.

    `simulated`: the error bound and its quantile, when the method found them by simulation;
    otherwise the bound follows from the central limit theorem.
    """
    if not replacement:
        sizes = np.minimum(sizes, strata.size)
    rng = np.random.default_rng(seed)
    rows, owner, draws = draw(strata, sizes, rng, replacement=replacement)
    multiplier = strata.size[owner] * draws / sizes[owner]
    drawn = strata.with_draws(sizes)
    bound, quantile = simulated or (
        error_bound(drawn, z_score(confidence), replacement=replacement),
        None,
    )
    return Selection(
        method=method,
        parameters=dict(parameters),
        seed=seed,
        representatives=profile.representatives(
            rows, owner, multiplier, multiplier / len(profile), draws
        ),
        labels=strata.labels(),
        design=Design(
            how="random",
            basis=basis,
            strata=drawn,
            replacement=replacement,
            error_bound=bound,
            confidence=confidence,
            quantile=quantile,
        ),
        summary=profile.summary(),
    )
