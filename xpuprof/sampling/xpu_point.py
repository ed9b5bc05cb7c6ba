"""XPU-Point (section IV): cluster slices by what CPU and GPU execute in them, and represent each
cluster by its slice nearest to the centroid."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.sampling.cluster_method import Choice, choose, parameters, with_options
from xpuprof.sampling.selection import Marker, Representative, Selection
from xpuprof.signature import matrix
from xpuprof.trace.tables import Process

F64 = npt.NDArray[np.float64]


def select(
    process: Process,
    *,
    seed: int,
    times: F64 | None = None,
    dim: int = matrix.DIM,
    warp_buckets: int = matrix.WARP_BUCKETS,
    cpu_weight: float = matrix.CPU_WEIGHT,
    length_weight: float = matrix.LENGTH_WEIGHT,
    method: str = "xpu-point",
    **options: Any,
) -> Selection:
    """Select representatives of one process.

    `times`: float64[slices] or float64[repeats, slices], seconds; they decide how many
    representatives a cluster gets, never which. `options`: fields of `cluster_method.Options`.
    Raises UsageError for options out of range.
    """
    settings = with_options(**options)
    signature = matrix.xpu_signature(
        process,
        seed=seed,
        dim=dim,
        warp_buckets=warp_buckets,
        cpu_weight=cpu_weight,
        length_weight=length_weight,
    )
    mean = None if times is None else np.atleast_2d(times).mean(axis=0)
    choice = choose(signature, settings, seed, mean)
    return Selection(
        method=method,
        parameters=parameters(signature, settings),
        seed=seed,
        representatives=_representatives(process, choice),
        labels=choice.labels,
        covered=choice.covered,
        scores={
            "bic": {str(k): score for k, score in choice.scores.items()},
            "wcss": choice.wcss,
        },
        summary=summary(process),
    )


def summary(process: Process) -> dict[str, Any]:
    """The whole run in a few numbers."""
    slices = process.slices
    return {
        "slices": len(slices),
        "launches": len(process.launches),
        "kernels": int(process.launches["kernel"].nunique()),
        "cpu_instructions": int(slices["cpu_instructions"].sum()),
        "gpu_instructions": int(slices["gpu_instructions"].sum()),
    }


def marker(process: Process, row: int) -> Marker:
    """The marker that ends slice `row`."""
    columns = "program gx gy gz lx ly lz".split()
    table = process.slices
    program, *size = (table[name].iat[row] for name in columns)
    grid = [int(value) if value == value else 0 for value in size]
    return Marker(
        kernel=str(table["kernel"].iat[row]),
        call=int(table["call"].iat[row]),
        program=str(program) if isinstance(program, str) else "",
        grid=(grid[0], grid[1], grid[2]),
        block=(grid[3], grid[4], grid[5]),
    )


def _representatives(process: Process, choice: Choice) -> tuple[Representative, ...]:
    result = []
    picks = choice.picks
    for i, row in enumerate(picks.slice.tolist()):
        result.append(
            Representative(
                slice=row,
                end=marker(process, row),
                start=marker(process, row - 1) if row else None,
                cluster=int(picks.cluster[i]),
                multiplier=float(choice.multiplier[i]),
                weight=float(choice.weight[i]),
            )
        )
    return tuple(result)
