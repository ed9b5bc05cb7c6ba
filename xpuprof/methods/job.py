"""One selection for many processes (of a job's run, of the runs that its ranks wrote, of a farm of
programs), here or on Dask workers.

What is heavy (reading, projecting, merging equal slices, labelling, looking for representatives) is
done run by run and needs no other run; what is joint (scale of the parts, the distinct slices,
their clustering) travels as points and sums. A run alone is the smallest job: the selection of one
run goes the same way (cluster_method.choose).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from xpuprof.clustering import distributed, kmeans
from xpuprof.clustering.cluster import (
    Known,
    Options,
    cluster,
    labelled_everywhere,
    parameters,
    settled,
    settled_by_times,
)
from xpuprof.clustering.executors import Farm, Here
from xpuprof.methods.xpu_point import marker
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.signature import matrix
from xpuprof.signature.kernels import merge
from xpuprof.signature.matrix import Part, Scale, inner_slices
from xpuprof.trace.coordinates import JobRow

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process

F64 = npt.NDArray[np.float64]


class Source(Protocol):
    """A run that a worker can open by itself; it travels to the worker, its data do not."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    def process(self) -> Process:
        """The process with the device work."""
        ...


@dataclass(frozen=True, eq=False)
class Held:
    """A process that is in hand already."""

    name: str
    held: Process

    def process(self) -> Process:
        """It."""
        return self.held


def held(processes: Sequence[Process]) -> list[Held]:
    """Processes in hand, as sources."""
    return [Held(process.name, process) for process in processes]


@dataclass(frozen=True)
class Plan:
    """How to project; the same for all runs."""

    seed: int
    dim: int = matrix.DIM
    warp_buckets: int = matrix.WARP_BUCKETS
    cpu_weight: float = matrix.CPU_WEIGHT
    memory_weight: float | None = None
    length_weight: float = matrix.LENGTH_WEIGHT


def select_job(
    sources: Sequence[Source],
    plan: Plan,
    options: Options,
    farm: Farm | None = None,
    limit: int = distributed.MOST_POINTS,
    *,
    method: str = "xpu-point",
    known: Known | None = None,
) -> Selection:
    """XPU-Point over the slices of all `sources` together, in their order.

    Slices are numbered on from source to source; a representative's `process` is the number of its
    source. The first slices of all runs are one cluster, the last ones another (`Options.ends`).
    `limit`: see `distributed.bring`. `known`: times of all slices in this order, for a target error
    or a budget. Raises InputError when some runs have CPU vectors and others not, UsageError for a
    target error or a budget without times.
    """
    if farm is None:
        with Here() as here:
            return select_job(sources, plan, options, here, limit, method=method, known=known)
    count = len(sources)
    projected = farm.keep(_project, sources, [plan] * count, [options.ends] * count)
    scales: list[list[Scale]] = list(farm.get(farm.keep(_scales, projected)))
    total = matrix.summed(scales)
    how = [farm.share((total, plan))] * count
    points, extents = farm.keep(_points, projected, how), farm.keep(_extent, projected, how)
    del projected  # so that its room is given back
    found = cluster(farm, points, options, plan.seed, 2 if options.ends else 0, limit)
    if options.wishes:
        choice, _ = settled_by_times(farm, points, extents, found, options, known)
    else:
        pieces = labelled_everywhere(farm, points, extents, found.best)
        del points, extents  # so that their room is given back
        choice = settled(farm, pieces, found, options)
    starts = choice.starts
    owner = np.searchsorted(starts, choice.picks.slice, side="right") - 1
    wanted = [(choice.picks.slice[owner == i] - starts[i]).tolist() for i in range(count)]
    markers = _markers_of(farm, sources, wanted)
    representatives = tuple(
        Representative(
            slice=JobRow(int(row)),
            end=markers[run][int(row - starts[run])],
            start=markers[run].get(int(row - starts[run]) - 1),
            cluster=int(choice.picks.cluster[i]),
            multiplier=float(choice.multiplier[i]),
            weight=float(choice.weight[i]),
            process=int(run),
        )
        for i, (row, run) in enumerate(zip(choice.picks.slice, owner, strict=True))
    )
    of_signature = matrix.settings_of(
        total,
        plan.dim,
        plan.warp_buckets,
        plan.cpu_weight,
        plan.memory_weight,
        plan.length_weight,
    )
    return Selection(
        method=method,
        parameters=parameters(of_signature, options),
        seed=plan.seed,
        representatives=representatives,
        labels=choice.labels,
        covered=choice.covered,
        scores=choice.report(),
        summary={
            "runs": [source.name for source in sources],
            "slices_by_run": np.diff(starts).tolist(),
            "slices": int(starts[-1]),
            "instructions": float(sum(scale.total for scale in total)),
        },
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """A projected run: its distinct inner slices (`parts`, not scaled), which of them each inner
    slice is, and the rows of its ends."""

    parts: list[Part]
    point: npt.NDArray[np.uint32]
    ends: list[Part]
    scales: list[Scale]

    def __sizeof__(self) -> int:
        size = self.point.nbytes
        return size + sum(part.mix.nbytes + part.length.nbytes for part in self.parts)


def _project(source: Source, plan: Plan, ends: bool) -> _Run:
    parts = matrix.project(
        source.process(),
        seed=plan.seed,
        dim=plan.dim,
        warp_buckets=plan.warp_buckets,
        cpu_weight=plan.cpu_weight,
        memory_weight=plan.memory_weight,
    )
    scales = [matrix.scale_of(part, ends) for part in parts]
    slices = len(parts[0].length)
    inner = inner_slices(slices, ends)
    outer = np.delete(np.arange(slices), inner)
    # Lengths take part in the comparison with all their bits.
    columns = [c for part in parts for c in (part.mix, part.length[:, None].view(np.float32))]
    point, first = merge(np.hstack(columns)[inner])
    rows = first.astype(np.int64) + (inner.start or 0)
    return _Run([_rows(p, rows) for p in parts], point, [_rows(p, outer) for p in parts], scales)


def _rows(part: Part, rows: npt.NDArray[np.int64]) -> Part:
    return replace(part, mix=part.mix[rows], length=part.length[rows])


def _scales(run: _Run) -> list[Scale]:
    return run.scales


def _points(run: _Run, how: tuple[list[Scale], Plan]) -> kmeans.Points:
    """A run's inner slices as weighted points."""
    scales, plan = how
    scaled, _, _ = matrix.join(run.parts, scales, plan.length_weight)
    # Scaling may round two rows to one. Merged anew, points are as when slices are merged.
    merged = kmeans.merged(scaled)
    point = merged.point[run.point]
    weight = np.bincount(point, minlength=len(merged.x)).astype(np.float64)
    return kmeans.Points(merged.x, weight, point)


def _extent(run: _Run, how: tuple[list[Scale], Plan]) -> F64:
    """Share of each slice of a run, its ends included, of the whole extent."""
    scales, plan = how
    _, distinct, _ = matrix.join(run.parts, scales, plan.length_weight)
    extent: F64 = distinct[run.point]
    if len(run.ends[0].length):
        _, edge, _ = matrix.join(run.ends, scales, plan.length_weight)
        extent = np.concatenate([edge[:1], extent, edge[1:]])
    return extent


def _markers_of(
    farm: Farm, sources: Sequence[Source], wanted: list[list[int]]
) -> dict[int, dict[int, Marker]]:
    """By run that has representatives: markers of the given slices and of the ones before."""
    some = [run for run, rows in enumerate(wanted) if rows]
    found = farm.get(farm.keep(_markers, [sources[i] for i in some], [wanted[i] for i in some]))
    return dict(zip(some, found, strict=True))


def _markers(source: Source, rows: list[int]) -> dict[int, Marker]:
    process = source.process()
    return {
        row: marker(process, row) for chosen in rows for row in (chosen - 1, chosen) if row >= 0
    }
