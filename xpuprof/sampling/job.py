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
from xpuprof.signature.kernels import merge
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
class _Run:
    """A projected run: its distinct slices (`parts`, not scaled), which of them each slice is."""

    parts: list[Part]
    point: npt.NDArray[np.uint32]
    scales: list[Scale]


@dataclass(frozen=True, eq=False)
class Merged:
    """A run's distinct inner slices, scaled, and the extent of all its slices."""

    points: kmeans.Points
    extent: F64
    instructions: float
    parameters: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Shape:
    slices: int
    points: int
    extent: F64
    instructions: float
    parameters: dict[str, Any]


def _project(source: Source, plan: Plan) -> _Run:
    parts = matrix.project(
        source.process(),
        seed=plan.seed,
        dim=plan.dim,
        warp_buckets=plan.warp_buckets,
        cpu_weight=plan.cpu_weight,
    )
    scales = [matrix.scale_of(part) for part in parts]
    # Lengths take part in the comparison with all their bits.
    columns = [c for part in parts for c in (part.mix, part.length[:, None].view(np.float32))]
    point, first = merge(np.hstack(columns))
    rows = first.astype(np.int64)
    return _Run([Part(p.weight, p.mix[rows], p.length[rows]) for p in parts], point, scales)


def _scales(run: _Run) -> list[Scale]:
    return run.scales


def _merge(run: _Run, scales: list[Scale], plan: Plan, ends: bool) -> Merged:
    joined = matrix.join(run.parts, scales, plan.length_weight, plan.warp_buckets)
    inner = run.point[inner_slices(len(run.point), ends)]
    used, first, inverse = np.unique(inner, return_index=True, return_inverse=True)
    order = np.argsort(first)  # of appearance, as when the slices themselves are merged
    number = np.empty(len(used), np.uint32)
    number[order] = np.arange(len(used), dtype=np.uint32)
    point = number[inverse]
    weight = np.bincount(point, minlength=len(used)).astype(np.float64)
    return Merged(
        points=kmeans.Points(joined.matrix[used[order]], weight, point),
        extent=joined.extent[run.point],
        instructions=float(joined.instructions[run.point].sum()),
        parameters=joined.parameters,
    )


def _shape(run: Merged) -> _Shape:
    return _Shape(len(run.extent), len(run.points.x), run.extent, run.instructions, run.parameters)


def thin(run: Merged, share: float, seed: int) -> tuple[F32, F64]:
    """(x, weight) of a run's distinct slices; of fewer when `share` is below 1: a lightweight
    coreset (Bachem, Lucic, Krause, KDD 2018), drawn half by weight and half by weight x squared
    distance to the mean, re-weighted so that every weighted sum is kept in expectation."""
    points = run.points
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


def _label(run: Merged, best: kmeans.Clustering) -> tuple[I32, F32]:
    """Nearest centre and squared distance of each inner slice of a run."""
    points = run.points
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
