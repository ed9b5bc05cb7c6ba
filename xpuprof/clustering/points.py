# SPDX-License-Identifier: Apache-2.0
"""From block vectors to weighted points, for one or several runs.

An executor does the heavy work (reading, projecting, merging equal slices) run by run,
independently of other runs. The joint part (the scale of the parts) is exchanged as sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I32, I64
from xpuprof.clustering import kmeans
from xpuprof.clustering.executors import Executor, Handle, LocalExecutor
from xpuprof.clustering.kmeans import Points
from xpuprof.signature import matrix
from xpuprof.signature.kernels import merge
from xpuprof.signature.matrix import Part, Projection, Scale, Signature, apart_of, builds_of

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process

I8 = npt.NDArray[np.int8]
Numbers = npt.NDArray[np.int8] | I32
"""Clusters of slices set apart, from 1; 0 for the others. In the smallest sufficient type."""
Apart = tuple[str, int]
"""Slices set apart that are alike: the program, and the value of `matrix.apart_of`."""


class Source(Protocol):
    """A recorded process that a worker can open; the source is sent, its data are not."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    def process(self) -> Process: ...


@dataclass(frozen=True, eq=False)
class Extents:
    """Each slice's share of the whole extent, and its cluster if it is set apart."""

    extent: F64
    apart: Numbers

    def __sizeof__(self) -> int:
        return self.extent.nbytes + self.apart.nbytes


@dataclass(frozen=True, eq=False)
class SlicePoints:
    """The slices of one or several runs, held by `executor`.

    `points`: each run's slices that are not set apart, as weighted points. `ends`: clusters of the
    first and the last slices of one program. `apart`: clusters of all slices that are set apart.
    `settings`: the options used.
    """

    executor: Executor
    points: list[Handle[Points]]
    extents: list[Handle[Extents]]
    ends: int
    apart: int
    settings: Mapping[str, Any]
    instructions: float

    def free_points(self) -> None:
        """Free the points; extents stay."""
        self.points.clear()


def of_signatures(
    signatures: Sequence[Signature], ends: bool, mass: F64 | None = None
) -> SlicePoints:
    """Points from signatures in memory, one per process. `mass`: weights of the slices of a single
    signature in the clustering, float64[slices] [1]."""
    points: list[Handle[Points]] = []
    extents: list[Handle[Extents]] = []
    every = [apart_of(len(signature), ends, signature.builds) for signature in signatures]
    kinds = [_kinds(apart, own.program) for apart, own in zip(every, signatures, strict=True)]
    numbers, count = _numbered(kinds)
    for signature, apart, number in zip(signatures, every, numbers, strict=True):
        rows = apart == 0
        own = None if mass is None else mass[rows]
        points.append(Handle(kmeans.merged(signature.matrix[rows], own)))
        extents.append(Handle(Extents(signature.extent, number[apart])))
    return SlicePoints(
        LocalExecutor(),
        points,
        extents,
        _ends([len(signature) for signature in signatures], ends),
        count,
        signatures[0].parameters,
        float(sum(signature.instructions.sum() for signature in signatures)),
    )


def of_sources(
    executor: Executor, sources: Sequence[Source], projection: Projection, ends: bool
) -> SlicePoints:
    """Points of recorded processes, projected where the executor opens them.

    Raises InputError when only some have CPU vectors or stack distances.
    """
    count = len(sources)
    projected = executor.map(_project, sources, [projection] * count, [ends] * count)
    scales = list(executor.results(executor.map(_scales, projected)))
    total = matrix.summed(scales)
    shared = [executor.share((total, projection))] * count
    kinds = executor.results(executor.map(_kinds_of_run, projected))
    numbers, apart = _numbered(list(kinds))
    return SlicePoints(
        executor,
        executor.map(_points, projected, shared),
        executor.map(_extent, projected, shared, numbers),
        _ends([own[0].slices for own in scales], ends),
        apart,
        projection.settings(total),
        float(sum(scale.total for scale in total)),
    )


def _kinds(apart: I8, program: str) -> list[Apart]:
    """What a run has of slices set apart."""
    return [(program, int(code)) for code in np.unique(apart) if code]


def _numbered(every: Sequence[Sequence[Apart]]) -> tuple[list[Numbers], int]:
    """For each run the cluster of each value of `matrix.apart_of`, and how many clusters there are.
    Start-up, builds and exit of one program are alike in all its processes, and tell nothing of
    another program's."""
    cluster = {kind: i for i, kind in enumerate(dict.fromkeys(chain(*every)), 1)}
    few = len(cluster) < 128
    numbers: list[Numbers] = []
    for kinds in every:
        number: Numbers = np.zeros(128, np.int8) if few else np.zeros(128, np.int32)
        for kind in kinds:
            number[kind[1]] = cluster[kind]
        numbers.append(number)
    return numbers, len(cluster)


def _ends(slices: Sequence[int], ends: bool) -> int:
    """Clusters of the first and the last slices, if these represent themselves."""
    return 2 if any(apart_of(number, ends).any() for number in slices) else 0


@dataclass(frozen=True, eq=False)
class _Run:
    """A projected run: its distinct slices (`parts`, not scaled) but for those set apart (`alone`),
    and which of them each slice is."""

    parts: list[Part]
    point: npt.NDArray[np.uint32]
    alone: list[Part]
    scales: list[Scale]
    apart: I8
    program: str

    def __sizeof__(self) -> int:
        size = self.point.nbytes
        return size + sum(part.vectors.mix.nbytes + part.vectors.row.nbytes for part in self.parts)


def _project(source: Source, projection: Projection, ends: bool) -> _Run:
    process = source.process()
    parts = matrix.project(process, projection)
    apart = apart_of(len(process.slices), ends, builds_of(process))
    scales = [matrix.scale_of(part, apart) for part in parts]
    inner = np.flatnonzero(apart == 0)
    rows = np.stack([part.vectors.row[inner].astype(np.uint32) for part in parts], axis=1)
    point, first = merge(rows)
    distinct, alone = inner[first], np.flatnonzero(apart)
    return _Run(
        [_only(p, distinct) for p in parts],
        point,
        [_only(p, alone) for p in parts],
        scales,
        apart,
        matrix.beginning_of(process),
    )


def _only(part: Part, slices: I64) -> Part:
    return replace(part, vectors=part.vectors.only(slices))


def _scales(run: _Run) -> list[Scale]:
    return run.scales


def _kinds_of_run(run: _Run) -> list[Apart]:
    return _kinds(run.apart, run.program)


def _points(run: _Run, how: tuple[list[Scale], Projection]) -> Points:
    """A run's inner slices as weighted points."""
    scales, projection = how
    scaled, _, _ = matrix.join(run.parts, scales, projection)
    # Scaling may round two rows to one; merging again gives the same points as merging slices.
    merged = kmeans.merged(scaled)
    point = merged.point[run.point]
    weight = np.bincount(point, minlength=len(merged.x)).astype(np.float64)
    return Points(merged.x, weight, point)


def _extent(run: _Run, how: tuple[list[Scale], Projection], number: Numbers) -> Extents:
    """Share of each slice of a run of the whole extent."""
    scales, projection = how
    extent = np.empty(len(run.apart))
    _, distinct, _ = matrix.join(run.parts, scales, projection)
    extent[run.apart == 0] = distinct[run.point]
    if run.apart.any():
        _, alone, _ = matrix.join(run.alone, scales, projection)
        extent[run.apart != 0] = alone
    return Extents(extent, number[run.apart])
