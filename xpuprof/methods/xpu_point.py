"""XPU-Point (section IV): cluster slices by what CPU and GPU execute in them, and represent each
cluster by its slice nearest to the centroid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xpuprof.clustering.cluster import Choice, Known, Options, choose, parameters, with_options
from xpuprof.methods.declaration import CLUSTERING, CPU_WEIGHT, Method, Need
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.signature import matrix

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process

F64 = npt.NDArray[np.float64]


SIGNATURE_OPTIONS = ("dim", "warp_buckets", "cpu_weight", "memory_weight", "length_weight")


def select(
    process: Process,
    *,
    seed: int,
    times: F64 | None = None,
    method: str = "xpu-point",
    **options: Any,
) -> Selection:
    """Select representatives of one process.

    `times`: float64[slices] or float64[repeats, slices], seconds. With a
    target error or a budget they decide how many representatives a cluster gets and, from three
    repeats on, which slices are so far from the others that they stand for themselves; else the
    selection rests on the profile alone. `options`: `matrix.xpu_signature`'s and the fields
    of `cluster_method.Options`. Raises UsageError for options out of range.
    """
    make, settings = prepare([process], method, options)
    (signature,) = make(seed)
    choice = choose([signature], settings, seed, None if times is None else Known.of(times))
    return Selection(
        method=method,
        parameters=parameters(signature.parameters, settings),
        seed=seed,
        representatives=representatives(choice, partial(marker, process)),
        labels=choice.labels,
        covered=choice.covered,
        scores=choice.report(),
        summary=summary(process),
    )


def prepare(
    processes: Sequence[Process], method: str, options: dict[str, Any]
) -> tuple[Callable[[int], list[matrix.Signature]], Options]:
    """The processes' signatures as a function of the seed, and how to cluster them."""
    of_signature = {name: value for name, value in options.items() if name in SIGNATURE_OPTIONS}
    others = {name: value for name, value in options.items() if name not in SIGNATURE_OPTIONS}
    if method == "gpu-point":
        of_signature["cpu_weight"] = 0.0
    settings = with_options(**others)

    def make(seed: int) -> list[matrix.Signature]:
        return matrix.xpu_signatures(processes, seed=seed, ends=settings.ends, **of_signature)

    return make, settings


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
    cell: dict[Any, Any] = process.slices.iloc[row].to_dict()
    return Marker(
        kernel=str(cell["kernel"]),
        call=int(cell["call"]),
        program=str(cell["program"]),
        grid=(int(cell["gx"]), int(cell["gy"]), int(cell["gz"])),
        block=(int(cell["lx"]), int(cell["ly"]), int(cell["lz"])),
    )


def representatives(
    choice: Choice, marker_of: Callable[[int], Marker]
) -> tuple[Representative, ...]:
    """The choice as the selection holds it; `marker_of(slice)` is the marker that ends a slice."""
    picks = choice.picks
    return tuple(
        Representative(
            slice=row,
            end=marker_of(row),
            start=marker_of(row - 1) if row else None,
            cluster=int(picks.cluster[i]),
            multiplier=float(choice.multiplier[i]),
            weight=float(choice.weight[i]),
        )
        for i, row in enumerate(picks.slice.tolist())
    )


METHOD = Method(
    name="xpu-point",
    help="Clusters of CPU and device block vectors, each represented by its slices nearest to the "
    "centroid.",
    select=select,
    needs=(Need.VECTORS,),
    options=(*CLUSTERING, CPU_WEIGHT),
    bound="target_error",
    clusters=True,
    default=True,
)
