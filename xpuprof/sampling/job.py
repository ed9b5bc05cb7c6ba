"""One selection for many runs (ranks of a job, a farm of programs), here or on Dask workers.

What is heavy (reading, projecting, merging equal slices, labelling) is done run by run and needs no
other run; what is joint (scale of the parts, the distinct slices, their clustering) is small. The
runs may be spread over workers or done one after the other: every sum goes over the runs in their
order, so the selection is the same to the last slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.sampling import kmeans
from xpuprof.sampling.cluster_method import Options, cluster, inner_slices, parameters, settle
from xpuprof.sampling.selection import Marker, Representative, Selection
from xpuprof.sampling.xpu_point import marker
from xpuprof.signature import matrix
from xpuprof.signature.matrix import Part, Scale

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

MOST_POINTS = 2_000_000
"""Distinct slices that are clustered as they are, in one place. Beyond, each run's are thinned in
proportion (`thin`), and the loss is stated."""


class Source(Protocol):
    """A run that a worker can open by itself; it travels to the worker, its data do not."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    def process(self) -> Process:
        """The process with the device work."""
        ...


class Farm(Protocol):
    """Where the work is done. Results of `keep` stay where they were made."""

    def keep(self, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
        """Handles of function(*item) for each item; items may be handles."""
        ...

    def get(self, handles: list[Any]) -> list[Any]:
        """The results."""
        ...


class Here:
    """One run after the other, in this process."""

    def keep(self, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
        """Computes at once."""
        return [function(*item) for item in zip(*items, strict=True)]

    def get(self, handles: list[Any]) -> list[Any]:
        """As they are."""
        return handles


@dataclass(frozen=True)
class Plan:
    """How to project; the same for all runs."""

    seed: int
    dim: int = matrix.DIM
    warp_buckets: int = matrix.WARP_BUCKETS
    cpu_weight: float = matrix.CPU_WEIGHT
    length_weight: float = matrix.LENGTH_WEIGHT


def select_job(
    sources: Sequence[Source], plan: Plan, options: Options, farm: Farm | None = None
) -> Selection:
    """XPU-Point over the slices of all `sources` together, in their order.

    A representative's `process` is the number of its source, its `slice` counts within that source;
    labels are of all slices, source after source. The first slices of all runs are one cluster, the
    last ones another (`Options.ends`). Raises InputError when some runs have CPU vectors and others
    not.
    """
    farm = farm or Here()
    projected = farm.keep(_project, sources, [plan] * len(sources))
    scales = farm.get(farm.keep(_scales, projected))
    if len({len(scale) for scale in scales}) > 1:
        raise InputError("some of the runs have CPU vectors and some have not: profile them alike")
    total = [sum(column[1:], start=column[0]) for column in zip(*scales, strict=True)]
    ends = [options.ends] * len(sources)
    merged = farm.keep(_merge, projected, [total] * len(sources), [plan] * len(sources), ends)
    shapes: list[_Shape] = farm.get(farm.keep(_shape, merged))
    share = min(1.0, MOST_POINTS / max(sum(shape.points for shape in shapes), 1))
    seeds = [plan.seed + i for i in range(len(sources))]
    points = _together(farm.get(farm.keep(thin, merged, [share] * len(sources), seeds)))
    found = cluster(points, options, plan.seed, 2 if options.ends else 0)
    labelled = farm.get(farm.keep(_label, merged, [found.best] * len(sources)))
    choice = settle(
        found,
        np.concatenate([labels for labels, _ in labelled]),
        np.concatenate([distances for _, distances in labelled]),
        [shape.slices for shape in shapes],
        np.concatenate([shape.extent for shape in shapes]),
        options,
        None,
    )
    starts = np.cumsum([0] + [shape.slices for shape in shapes])
    owner = np.searchsorted(starts, choice.picks.slice, side="right") - 1
    wanted = [(choice.picks.slice[owner == i] - starts[i]).tolist() for i in range(len(sources))]
    markers = farm.get(farm.keep(_markers, sources, wanted))
    representatives = tuple(
        Representative(
            slice=int(row - starts[run]),
            end=markers[run][int(row - starts[run])],
            start=markers[run].get(int(row - starts[run]) - 1),
            cluster=int(choice.picks.cluster[i]),
            multiplier=float(choice.multiplier[i]),
            weight=float(choice.weight[i]),
            process=int(run),
        )
        for i, (row, run) in enumerate(zip(choice.picks.slice, owner, strict=True))
    )
    empty = matrix.Signature(points.x[:0], np.zeros(0), np.zeros(0), shapes[0].parameters)
    return Selection(
        method="xpu-point",
        parameters={**parameters(empty, options), "thinned_to": share},
        seed=plan.seed,
        representatives=representatives,
        labels=choice.labels,
        covered=choice.covered,
        scores=choice.report(),
        summary={
            "runs": [source.name for source in sources],
            "slices_by_run": [shape.slices for shape in shapes],
            "slices": int(starts[-1]),
            "instructions": float(sum(shape.instructions for shape in shapes)),
        },
    )


@dataclass(frozen=True, eq=False)
class _Shape:
    slices: int
    points: int
    extent: F64
    instructions: float
    parameters: dict[str, Any]


def _project(source: Source, plan: Plan) -> list[Part]:
    return matrix.project(
        source.process(),
        seed=plan.seed,
        dim=plan.dim,
        warp_buckets=plan.warp_buckets,
        cpu_weight=plan.cpu_weight,
    )


def _scales(parts: list[Part]) -> list[Scale]:
    return [matrix.scale_of(part) for part in parts]


def _merge(
    parts: list[Part], scales: list[Scale], plan: Plan, ends: bool
) -> tuple[kmeans.Points, matrix.Signature]:
    joined = matrix.join(parts, scales, plan.length_weight, plan.warp_buckets)
    points = kmeans.merged(joined.matrix[inner_slices(len(joined), ends)])
    rest = matrix.Signature(
        joined.matrix[:0], joined.extent, joined.instructions, joined.parameters
    )
    return points, rest


def _shape(merged: tuple[kmeans.Points, matrix.Signature]) -> _Shape:
    points, rest = merged
    total = float(rest.instructions.sum())
    return _Shape(len(rest.extent), len(points.x), rest.extent, total, rest.parameters)


def thin(
    merged: tuple[kmeans.Points, matrix.Signature], share: float, seed: int
) -> tuple[F32, F64]:
    """(x, weight) of a run's distinct slices; of fewer when `share` is below 1: a lightweight
    coreset (Bachem, Lucic, Krause, KDD 2018), drawn half by weight and half by weight x squared
    distance to the mean, re-weighted so that every weighted sum is kept in expectation."""
    points, _ = merged
    if share >= 1.0:
        return points.x, points.weight
    mean = np.average(points.x, axis=0, weights=points.weight)
    cost = points.weight * ((points.x - mean) ** 2).sum(axis=1)
    chance = 0.5 * points.weight / points.weight.sum()
    chance += 0.5 * cost / cost.sum() if cost.sum() > 0.0 else chance
    wanted = max(int(share * len(points.x)), 1)
    rng = np.random.default_rng(seed)
    rows, times = np.unique(rng.choice(len(chance), wanted, p=chance), return_counts=True)
    return points.x[rows], points.weight[rows] * times / (wanted * chance[rows])


def _together(parts: list[tuple[F32, F64]]) -> kmeans.Points:
    """Equal points of different runs become one, in order of appearance."""
    x = np.concatenate([part[0] for part in parts])
    weight = np.concatenate([part[1] for part in parts])
    merged = kmeans.merged(x)
    mass = np.bincount(merged.point, weight).astype(np.float64)
    return kmeans.Points(merged.x, mass, merged.point)


def _label(
    merged: tuple[kmeans.Points, matrix.Signature], best: kmeans.Clustering
) -> tuple[I32, F32]:
    """Nearest centre and squared distance of each inner slice of a run."""
    points, _ = merged
    own = kmeans.nearest(points.x, best.centre)
    distance2 = kmeans.distances(points.x, kmeans.Clustering(0.0, best.mass, best.centre, own))
    return own[points.point], distance2[points.point]


def _markers(source: Source, rows: list[int]) -> dict[int, Marker]:
    """Markers of the given slices and of the ones before them."""
    if not rows:
        return {}
    process = source.process()
    return {
        row: marker(process, row) for chosen in rows for row in (chosen - 1, chosen) if row >= 0
    }
