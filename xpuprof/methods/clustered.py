# SPDX-License-Identifier: Apache-2.0
"""Selection by clustering block vectors: shared by every clustering method, over one process or
many, recorded or imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.clustering import distributed
from xpuprof.clustering.choice import Choice, choose, parameters
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.methods.declaration import Need
from xpuprof.methods.profile import Boundaries, NeedsError, Slices, representatives
from xpuprof.selection.selection import Selection


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
    device_alone = given.get("cpu_weight") == 0.0
    if slices.vectors is None or (device_alone and not slices.vectors.of_device):
        need = Need.DEVICE_VECTORS if device_alone else Need.VECTORS
        raise NeedsError(f"{method} needs {need.value}")
    options = slices.vectors.options(given)
    data = slices.vectors.points(seed, given)
    choice = choose(data, options, seed, slice_times(slices), limit)
    return selection_of(
        slices,
        choice,
        method=method,
        parameters={**parameters(data.settings, options), **slices.vectors.settings()},
        seed=seed,
        summary=slices.vectors.summary(np.diff(choice.starts).tolist(), data.instructions),
    )


def slice_times(slices: Slices) -> SliceTimes | None:
    """What is known of the slice times; None without any."""
    if slices.timed is None and slices.times is not None:
        return SliceTimes.of(slices.times)
    return slices.timed


def selection_of(slices: Boundaries, choice: Choice, **stated: Any) -> Selection:
    """The selection of a choice; `stated`: its other fields."""
    chosen = choice.representatives
    return Selection(
        representatives=representatives(
            slices, chosen.slice, chosen.cluster, choice.multiplier, choice.weight
        ),
        labels=choice.labels,
        covered=choice.covered,
        scores=choice.report(),
        **stated,
    )


def clusters_of(
    slices: Slices, seed: int, given: Mapping[str, Any] | None = None
) -> npt.NDArray[np.int32] | None:
    """The cluster of each slice by its block vectors; None without vectors."""
    if slices.vectors is None:
        return None
    options = slices.vectors.options(given or {})
    return choose(slices.vectors.points(seed, given or {}), options, seed).labels
