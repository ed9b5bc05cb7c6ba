# SPDX-License-Identifier: Apache-2.0
"""SimPoint frequency vectors (.bb) as an imported run, with stack distances (.ldv) beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from scipy import sparse

    from xpuprof.formats.frequency import FrequencyVectors
    from xpuprof.trace.imported import ImportWriter


def load(source: Source, writer: ImportWriter) -> None:
    """Import a .bb or .bb.gz file: one slice per vector, no times.

    A file of the same name with suffix .ldv provides the slices' stack distances. Raises InputError
    when a file cannot be read or their numbers of slices differ.
    """
    # Imported late: `--help` lists formats without numpy.
    import numpy as np

    from xpuprof.formats.exporters import ldv
    from xpuprof.formats.frequency import INTERVAL, read_frequency_file

    matrix = to_matrix(read_frequency_file(source.path))
    count = matrix.shape[0]
    columns = {
        "kernel": writer.codes("kernel", [INTERVAL] * count),
        "call": np.arange(1, count + 1, dtype=np.int32),
        "instructions": np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel(),
    }
    stem = source.path.name.removesuffix(".gz").removesuffix(".bb")
    distances = source.path.with_name(stem + ".ldv")
    if distances.exists():
        found = ldv.read(distances)
        if found.slices != count:
            source.refuse(
                f"has {count} slices, {distances} has {found.slices}: they come from different "
                "runs; take the files of one run"
            )
        columns |= found.metrics
    writer.append(columns)
    writer.vectors("cpu", matrix)


def to_matrix(vectors: FrequencyVectors) -> sparse.csr_matrix:
    """slices x distinct dimensions, in ascending order."""
    import numpy as np
    from scipy import sparse

    names, column = np.unique(vectors.dimension, return_inverse=True)
    return sparse.csr_matrix(
        (vectors.value, column, vectors.row_start.astype(np.int64)),
        shape=(len(vectors), max(len(names), 1)),
    )


def _match(head: Head) -> Match:
    text = head.text
    vectors = text.startswith("T:") or (text.startswith("#") and "\nT:" in text)
    return Match.YES if vectors else Match.NO


FORMAT = Importer(
    name="simpoint",
    help="frequency vectors (.bb), with stack distances beside them (.ldv)",
    load=load,
    match=_match,
    aliases=("bb",),
)
