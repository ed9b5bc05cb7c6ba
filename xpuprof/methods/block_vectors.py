# SPDX-License-Identifier: Apache-2.0
"""The block vectors that a method selects from: recorded processes or plain frequency vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from xpuprof.clustering.executors import Executor, LocalExecutor
from xpuprof.clustering.options import Options, with_options
from xpuprof.clustering.points import SlicePoints, Source, of_signatures, of_sources
from xpuprof.errors import UsageError
from xpuprof.selection.results import RunSummary
from xpuprof.signature.matrix import Projection, Signature, frequency_signature, signatures

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process

Matrix = Callable[[], "sparse.csr_matrix | None"]

FREQUENCY_DIM = 15
"""SimPoint's default."""
FREQUENCY_DEFAULTS = {"per_cluster": 1, "ends": False, "resolution": 0.0}
"""How SimPoint clusters frequency vectors."""


class BlockVectors(Protocol):
    """Vectors that can be clustered. `given`: the options of `Projection` and `Options` that were
    set."""

    @property
    def of_device(self) -> bool:
        """Whether there are vectors of the device."""
        ...

    def options(self, given: Mapping[str, Any]) -> Options:
        """How to cluster. Raises UsageError for contradictory options."""
        ...

    def points(self, seed: int, given: Mapping[str, Any]) -> SlicePoints:
        """The slices as points. Raises UsageError for options that do not fit the vectors."""
        ...

    def signatures(self, seed: int, given: Mapping[str, Any]) -> list[Signature]:
        """The signatures of all slices, one per process."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """What a selection records besides its options."""
        ...

    def summary(self, slices: Sequence[int], instructions: float) -> RunSummary:
        """Summary of the whole run; `slices`: slices of each process."""
        ...


@dataclass(frozen=True, eq=False)
class ProcessAtHand:
    """A process already read, as a `Source`."""

    held: Process

    @property
    def name(self) -> str:
        return self.held.name

    def process(self) -> Process:
        return self.held


@dataclass(frozen=True, eq=False)
class RecordedVectors:
    """Vectors of recorded processes, each read where the executor opens it."""

    sources: Sequence[Source]
    executor: Executor = field(default_factory=LocalExecutor)

    @property
    def of_device(self) -> bool:
        """Every recording has them."""
        return True

    def options(self, given: Mapping[str, Any]) -> Options:
        """The first and last slices are set apart unless `ends` says otherwise."""
        return with_options(**_split(given)[1])

    def points(self, seed: int, given: Mapping[str, Any]) -> SlicePoints:
        """Project run by run, scale together."""
        projection = Projection(seed=seed, **_split(given)[0])
        return of_sources(self.executor, self.sources, projection, self.options(given).ends)

    def signatures(self, seed: int, given: Mapping[str, Any]) -> list[Signature]:
        """Read all processes here and project them."""
        processes = [source.process() for source in self.sources]
        projection = Projection(seed=seed, **_split(given)[0])
        return signatures(processes, projection, self.options(given).ends)

    def settings(self) -> Mapping[str, Any]:
        """Nothing besides the options."""
        return {}

    def summary(self, slices: Sequence[int], instructions: float) -> RunSummary:
        """Launches and instructions of one process; for several processes, the slices of each."""
        if len(self.sources) > 1:
            return RunSummary(
                sum(slices),
                instructions=instructions,
                runs=tuple(source.name for source in self.sources),
                slices_by_run=tuple(slices),
            )
        (facts,) = self.executor.results(self.executor.map(_facts, self.sources))
        return facts


def _facts(source: Source) -> RunSummary:
    process = source.process()
    return RunSummary(
        slices=len(process.slices),
        launches=process.sums.launches,
        kernels=len(process.sums.kernels),
        cpu_instructions=int(process.slices["cpu_instructions"].sum()),
        gpu_instructions=int(process.slices["gpu_instructions"].sum()),
    )


def _split(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Split into projection options and clustering options."""
    of_projection = {own.name for own in fields(Projection)}
    return (
        {name: value for name, value in given.items() if name in of_projection},
        {name: value for name, value in given.items() if name not in of_projection},
    )


@dataclass(frozen=True, eq=False)
class ImportedVectors:
    """Plain frequency vectors, without threads and warps. Clustered as SimPoint does, by mix only.
    `cpu`, `gpu`: slices x blocks, by instructions."""

    cpu: Matrix | None = None
    gpu: Matrix | None = None

    @property
    def present(self) -> bool:
        """Whether any vectors were imported."""
        return self.cpu is not None or self.gpu is not None

    @property
    def of_device(self) -> bool:
        """A SimPoint file has none."""
        return self.gpu is not None

    def options(self, given: Mapping[str, Any]) -> Options:
        """By default, one representative per cluster and no slices set apart."""
        return with_options(**{**FREQUENCY_DEFAULTS, **self._clustering(given)})

    def points(self, seed: int, given: Mapping[str, Any]) -> SlicePoints:
        """The points of the one signature."""
        return of_signatures(self.signatures(seed, given), self.options(given).ends)

    def signatures(self, seed: int, given: Mapping[str, Any]) -> list[Signature]:
        """Each side is normalised to sum to 1, as XPU-Point scales its parts (section IV)."""
        sides = [self.gpu] if given.get("cpu_weight") == 0.0 else [self.cpu, self.gpu]
        matrices = [matrix for side in sides if side and (matrix := side()) is not None]
        joined = sparse.hstack([m / max(float(m.sum()), 1.0) for m in matrices]).tocsr()
        signature = frequency_signature(
            joined.indptr.astype(np.uint64),
            joined.indices.astype(np.uint64),
            joined.data.astype(np.float64),
            seed=seed,
            dim=given.get("dim", FREQUENCY_DIM),
        )
        return [signature]

    def settings(self) -> Mapping[str, Any]:
        """All slices have equal weight."""
        return {"fixed_length": True}

    def summary(self, slices: Sequence[int], instructions: float) -> RunSummary:
        """Slices and instructions."""
        return RunSummary(sum(slices), instructions=instructions)

    def _clustering(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        of_projection, others = _split(given)
        lost = set(of_projection) - {"dim", "cpu_weight", "counts"}
        if lost or of_projection.get("cpu_weight"):
            name = min(lost or {"cpu_weight"}).replace("_", "-")
            raise UsageError(
                f"--{name} is for recorded vectors; imported ones have lost warps, lengths and "
                "scale: omit it"
            )
        return others
