"""SimPoint frequency vectors (.bb) as an imported run, with stack distances (.ldv) beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from xpuprof.errors import InputError
from xpuprof.formats.exporters import ldv
from xpuprof.formats.exporters.simpoint import INTERVAL, FrequencyVectors, read_frequency_file
from xpuprof.trace.imported import ImportWriter


def load(source: Path, writer: ImportWriter) -> None:
    """Import a .bb or .bb.gz file: a slice a vector, no times.

    A file of the same name that ends in .ldv gives the slices' stack distances. Raises InputError
    when a file cannot be read or the two disagree in their number of slices.
    """
    matrix = to_matrix(read_frequency_file(source))
    count = matrix.shape[0]
    columns = {
        "kernel": writer.codes("kernel", [INTERVAL] * count),
        "call": np.arange(1, count + 1, dtype=np.int32),
        "instructions": np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel(),
    }
    stem = source.name.removesuffix(".gz").removesuffix(".bb")
    distances = source.with_name(stem + ".ldv")
    if distances.exists():
        found = ldv.read(distances)
        if found.slices != count:
            raise InputError(
                f"{distances} has {found.slices} slices, {source} has {count}: they are of "
                "different runs"
            )
        columns |= found.metrics
    writer.append(columns)
    writer.vectors("cpu", matrix)


def to_matrix(vectors: FrequencyVectors) -> sparse.csr_matrix:
    """slices x distinct dimensions, in ascending order of their numbers."""
    names, column = np.unique(vectors.dimension, return_inverse=True)
    return sparse.csr_matrix(
        (vectors.value, column, vectors.row_start.astype(np.int64)),
        shape=(len(vectors), max(len(names), 1)),
    )
