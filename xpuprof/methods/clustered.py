# SPDX-License-Identifier: Apache-2.0
"""Selection by clustering block vectors: shared by every clustering method, over one process or
many, recorded or imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.clustering import distributed
from xpuprof.clustering.allocation_by_times import SliceTimes
from xpuprof.clustering.choice import Choice, choose, parameters
from xpuprof.methods.declaration import Need
from xpuprof.methods.profile import Boundaries, NeedsError, Slices, representatives
from xpuprof.selection.selection import Representative, Selection


def select(
    slices: Slices,
    *,
    method: str,
    seed: int,
    limit: int = distributed.MOST_POINTS,
    **given: Any,
) -> Selection:
    """Cluster the slices by the code they execute; the slices nearest to the centroid represent
    each cluster.

    With a target error or a budget, slice times decide how many representatives a cluster gets and,
    with three or more timer runs, which outlying slices represent only themselves. Otherwise the
    selection uses only the vectors. `given`: options of `Projection` and
    `clustering.options.Options`. `limit`: see `distributed.gather`. Raises NeedsError without
    vectors, UsageError for options out of range, InputError when only some processes have CPU
    vectors.
    """
    if slices.vectors is None:
        raise NeedsError(f"{method} needs {Need.VECTORS.value}")
    options = slices.vectors.options(given)
    data = slices.vectors.points(seed, given)
    choice = choose(data, options, seed, slice_times(slices), limit)
    of_process = np.diff(choice.starts).tolist()
    return Selection(
        method=method,
        parameters={**parameters(data.settings, options), **slices.vectors.settings()},
        seed=seed,
        representatives=represented(slices, choice),
        labels=choice.labels,
        covered=choice.covered,
        scores=choice.report(),
        summary=slices.vectors.summary(of_process, data.instructions),
    )


def slice_times(slices: Slices) -> SliceTimes | None:
    """The typical slice times and their number of timer runs."""
    return None if slices.times is None else SliceTimes(slices.times, slices.repeats)


def represented(slices: Boundaries, choice: Choice) -> tuple[Representative, ...]:
    """The chosen representatives in the selection's form."""
    chosen = choice.representatives
    return representatives(slices, chosen.slice, chosen.cluster, choice.multiplier, choice.weight)


def clusters_of(
    slices: Slices, seed: int, given: Mapping[str, Any] | None = None
) -> npt.NDArray[np.int32] | None:
    """The cluster of each slice by its block vectors; None without vectors."""
    if slices.vectors is None:
        return None
    options = slices.vectors.options(given or {})
    return choose(slices.vectors.points(seed, given or {}), options, seed).labels
