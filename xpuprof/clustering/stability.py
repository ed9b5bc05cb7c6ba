# SPDX-License-Identifier: Apache-2.0
"""How much a selection changes with another seed or resampled slices (bootstrap)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import I32
from xpuprof.clustering.choice import Choice, choose
from xpuprof.clustering.options import Options
from xpuprof.clustering.points import SlicePoints, of_signatures
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.signature.matrix import Signature

REPEATS = 10


@dataclass(frozen=True)
class Stability:
    """Over `len(k)` repeats: clusters as `Selection.k` counts them (including those of the first
    and the last slices), agreement of the labels with the selection's own (adjusted Rand index: 1
    the same, 0 as by chance), projected total relative to the truth (empty without times)."""

    kind: str
    k: list[int]
    agreement: list[float]
    projected: list[float]

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {"k": self.k, "agreement": self.agreement, "projected_rel": self.projected}


def over_seeds(
    points: Callable[[int], SlicePoints],
    options: Options,
    seed: int,
    times: SliceTimes | None,
    repeats: int = REPEATS,
) -> Stability:
    """Selections with other seeds: `points(seed)` gives the slices projected with that seed.
    `times` cover all slices, here and below."""
    base = choose(points(seed), options, seed, times)
    seeds = range(seed + 1, seed + 1 + repeats)
    others = [choose(points(other), options, other, times) for other in seeds]
    return Stability(
        "seeds",
        [_clusters(other) for other in others],
        [adjusted_rand(base.labels, other.labels) for other in others],
        _projected(others, times),
    )


def over_bootstraps(
    signatures: Sequence[Signature],
    options: Options,
    seed: int,
    times: SliceTimes | None,
    repeats: int = REPEATS,
) -> Stability:
    """Selections from slices drawn with replacement, as many per process as it has; labels are
    compared on the drawn slices."""
    base = choose(of_signatures(signatures, options.ends), options, seed, times)
    starts = np.cumsum([0, *(len(signature) for signature in signatures)])
    rng = np.random.default_rng(seed)
    found, agreement, projected = [], [], []
    for _ in range(repeats):
        drawn = [_drawn(len(signature), options.ends, rng) for signature in signatures]
        rows = np.concatenate([start + own for start, own in zip(starts, drawn, strict=False)])
        total = sum(float(s.extent[own].sum()) for s, own in zip(signatures, drawn, strict=True))
        others = [
            Signature(
                s.matrix[own],
                s.extent[own] / total,
                s.instructions[own],
                s.parameters,
                None if s.builds is None else s.builds[own],
                s.program,
            )
            for s, own in zip(signatures, drawn, strict=True)
        ]
        theirs = None if times is None else times.only(rows)
        other = choose(of_signatures(others, options.ends), options, seed, theirs)
        found.append(_clusters(other))
        agreement.append(adjusted_rand(base.labels[rows], other.labels))
        projected += _projected([other], theirs)
    return Stability("bootstrap", found, agreement, projected)


def _clusters(choice: Choice) -> int:
    return len(np.unique(choice.labels[choice.labels >= 0]))


def _drawn(slices: int, ends: bool, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Slices drawn with replacement, in run order; ends that are set apart are kept."""
    if not ends or slices < 3:
        return np.sort(rng.integers(slices, size=slices))
    inner = np.sort(rng.integers(1, slices - 1, size=slices - 2))
    return np.concatenate([[0], inner, [slices - 1]])


def adjusted_rand(a: I32, b: I32) -> float:
    """Adjusted Rand index of two labellings (Hubert and Arabie, 1985)."""
    pairs = np.unique(np.stack([a, b]), axis=1, return_counts=True)[1].astype(np.float64)
    left = np.unique(a, return_counts=True)[1].astype(np.float64)
    right = np.unique(b, return_counts=True)[1].astype(np.float64)
    both, one, two = (float((x * (x - 1.0)).sum()) / 2.0 for x in (pairs, left, right))
    all_pairs = len(a) * (len(a) - 1.0) / 2.0
    if not all_pairs:
        return 1.0
    expected = one * two / all_pairs
    most = (one + two) / 2.0
    return 1.0 if most == expected else (both - expected) / (most - expected)


def _projected(choices: list[Choice], times: SliceTimes | None) -> list[float]:
    if times is None:
        return []
    typical = times.typical
    total = float(typical.sum())
    return [float(np.dot(typical[c.representatives.slice], c.multiplier)) / total for c in choices]
