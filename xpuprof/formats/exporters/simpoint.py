# SPDX-License-Identifier: Apache-2.0
"""SimPoint's files: `.simpoints` (`slice number`) and `.weights` (`weight number`), with the same
order and number of lines, because gem5 reads the two in lockstep; `.labels` (`cluster distance`,
one line per slice)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from xpuprof.selection.selection import Selection


def write_simpoints(
    selection: Selection,
    base: Path,
    distance: npt.NDArray[np.float64] | None = None,
    force: bool = False,
) -> list[Path]:
    """Write `base`.simpoints, `base`.weights and `base`.labels; returns their paths.

    Weights add up to 1 over the covered slices. If clusters have several representatives, each gets
    its own number, while labels still name clusters. `distance`: each slice's distance to its
    centroid. Raises UsageError when a file exists and `force` is false, or cannot be written.
    """
    reps = sorted(selection.representatives, key=lambda r: (r.cluster, r.slice))
    several = len({r.cluster for r in reps}) < len(reps)
    numbers = [i if several else r.cluster for i, r in enumerate(reps)]
    total = sum(r.weight for r in reps)
    simpoints, weights, labels = files(base)
    far = [0.0] * selection.slices if distance is None else distance.tolist()
    texts = {
        simpoints: [f"{r.slice} {n}" for r, n in zip(reps, numbers, strict=True)],
        weights: [f"{r.weight / total:.12g} {n}" for r, n in zip(reps, numbers, strict=True)],
        labels: [
            f"{label} {d:.9g}" for label, d in zip(selection.labels.tolist(), far, strict=True)
        ],
    }
    return write_files({path: "\n".join(lines) + "\n" for path, lines in texts.items()}, force)


def files(base: Path) -> list[Path]:
    """`base`.simpoints, `base`.weights and `base`.labels."""
    kinds = ("simpoints", "weights", "labels")
    return [base.with_name(f"{base.name}.{kind}") for kind in kinds]


FORMAT = Exporter(
    name="simpoint",
    help="OUT.simpoints, .weights and .labels",
    write=lambda source, out, options: write_simpoints(source.selection, out, force=options.force),
    needs=Needs.SELECTION,
    per_process=True,
)
