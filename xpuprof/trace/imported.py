# SPDX-License-Identifier: Apache-2.0
"""The slice table of an imported run: `RUN/imported/`, one raw little-endian file per column.

    columns.json    format, version, rows, the columns (name, dtype, unit), the names behind codes
    <n>.bin         column n of that list: rows x dtype, nothing else

Columns are appended chunk by chunk, so an import of any size needs one chunk of memory; readers map
the files. docs/imports.md lists the columns.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from xpuprof.errors import TraceError
from xpuprof.trace.coordinates import NO_KERNELS
from xpuprof.trace.records import is_natural, shortened

FOLDER = "imported"
FORMAT = "xpuprof-imported"
VERSION = 1
NAMED = ("kernel", "range")
"""Columns of codes into a list of names."""

TABLE = frozenset(
    (
        *("kernel", "call", "process", "device", "stream", "program", "range", "range_call"),
        *("gx", "gy", "gz", "lx", "ly", "lz", "start"),
    )
)
"""Columns that describe a slice; all others are metrics. `start`: of its kernel, in seconds from
the beginning of the recording."""

VECTORS = ("gpu", "cpu")

TIMES = ("gpu_time", "cycles", "time")
"""The metrics that select in an imported profile, best first: the kernels' own time is what the
field's methods estimate and what a simulator of kernels gives."""

_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, NotImplementedError),
    *(BadZipFile, zlib.error, struct.error),
)
"""Exceptions of numpy and zipfile for a damaged archive."""


@dataclass(frozen=True)
class KernelTotal:
    """A kernel's launches, their time in the import's metric, and its share of all kernels'."""

    kernel: str
    calls: int
    time: float | None
    share: float | None


class ImportWriter:
    """Appends chunks of equally long columns; leaving the context makes them readable."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._folder.mkdir(parents=True)
        self._types: dict[str, str] = {}
        self._names: dict[str, dict[str, int]] = {name: {} for name in NAMED}
        self.rows = 0
        self.units: dict[str, str] = {}
        self.properties: dict[str, Any] = {}

    def __enter__(self) -> ImportWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    def codes(self, column: str, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Codes of `names` in the column's list of names, extended as needed."""
        known = self._names[column]
        return np.fromiter(
            (known.setdefault(name, len(known)) for name in names), np.int32, len(names)
        )

    def append(self, chunk: Mapping[str, npt.NDArray[Any]]) -> None:
        """Append a chunk; all chunks have the same columns."""
        if not self._types:
            self._types = {n: v.dtype.newbyteorder("<").str for n, v in chunk.items()}
        if chunk.keys() != self._types.keys():
            raise ValueError(f"columns changed: {sorted(chunk.keys() ^ self._types.keys())}")
        lengths = {len(values) for values in chunk.values()}
        if len(lengths) != 1:
            raise ValueError("columns of different lengths")
        # Numbered, because a metric's name may contain a slash.
        for number, (name, dtype) in enumerate(self._types.items()):
            # Opened for each chunk: a table may have more columns than a process descriptors.
            with (self._folder / f"{number}.bin").open("ab") as file:
                file.write(np.ascontiguousarray(chunk[name]).astype(dtype, copy=False).data)
        self.rows += lengths.pop()

    def vectors(self, side: str, matrix: sparse.csr_matrix) -> None:
        """Store instruction-weighted block vectors, slices x blocks, of the `gpu` or `cpu` side."""
        sparse.save_npz(self._folder / f"{side}-vectors.npz", matrix)

    def _finish(self) -> None:
        text = json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "rows": self.rows,
                "columns": [
                    {"name": name, "dtype": dtype, "unit": self.units.get(name, "")}
                    for name, dtype in self._types.items()
                ],
                "names": {name: list(codes) for name, codes in self._names.items() if codes},
                **self.properties,
            },
            indent=1,
        )
        (self._folder / "columns.json").write_text(text + "\n", encoding="utf-8")


def _is_column(column: object) -> bool:
    """Whether a dtype describes a column of numbers: `<i4`, `<f8`, `|b1` and the like."""
    return (
        isinstance(column, dict)
        and all(isinstance(column.get(key), str) for key in ("name", "dtype", "unit"))
        and re.fullmatch(r"\|b1|[<|][iu][1248]|<f[48]", column["dtype"]) is not None
    )


def _are_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


class ImportedSlices:
    """Reads what ImportWriter wrote. Raises TraceError for a foreign, too new or damaged file."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        file = self._folder / "columns.json"
        try:
            header = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise TraceError(
                f"{run} holds no imported slices that can be read ({error}); import it again"
            ) from error
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise TraceError(f"{file} was not written by xpuprof; import the source again")
        version = header.get("version")
        if is_natural(version) and version > VERSION:
            raise TraceError(
                f"{run} was imported by a newer xpuprof (version {version}, this one reads up to "
                f"{VERSION}); update xpuprof"
            )
        columns, names = header.get("columns"), header.get("names")
        for key, right in (
            ("version", is_natural(version)),
            ("rows", is_natural(header.get("rows"))),
            ("columns", isinstance(columns, list) and all(map(_is_column, columns))),
            ("names", isinstance(names, dict) and all(map(_are_names, names.values()))),
        ):
            if not right:
                raise TraceError(
                    f"{file} has {key} {shortened(header.get(key))}, which is invalid; import the "
                    "source again"
                )
        self.properties: dict[str, Any] = header
        self.rows: int = header["rows"]
        self._columns: dict[str, str] = {c["name"]: c["dtype"] for c in header["columns"]}
        self.units: dict[str, str] = {c["name"]: c["unit"] for c in header["columns"]}
        self._names: dict[str, list[str]] = header["names"]

    @staticmethod
    def present(run: Path) -> bool:
        """Whether the run directory was made by an import."""
        return (run / FOLDER / "columns.json").exists()

    @property
    def metrics(self) -> list[str]:
        """Names of the metric columns (times, counts)."""
        return [name for name in self._columns if name not in TABLE]

    @property
    def time_name(self) -> str | None:
        """The best metric that is a time; None without one."""
        return next((name for name in TIMES if name in self.metrics), None)

    def kernels(self) -> list[KernelTotal]:
        """The kernels, longest first; program exit is not one."""
        names, codes = self._names["kernel"], self._codes("kernel")
        calls = np.bincount(codes, minlength=len(names))
        name = self.time_name
        weights = self.column(name) if name else np.zeros(self.rows)
        times = np.bincount(codes, weights, len(names))
        own = [i for i, kernel in enumerate(names) if kernel not in NO_KERNELS]
        own.sort(key=lambda i: (-times[i], -calls[i]))
        total = times[own].sum()
        return [
            KernelTotal(
                names[i],
                int(calls[i]),
                float(times[i]) if name else None,
                float(times[i] / total) if total else None,
            )
            for i in own
        ]

    def _codes(self, name: str) -> npt.NDArray[np.int32]:
        """A column of codes into its names."""
        if not np.issubdtype(self._columns[name][1:], np.integer):
            raise TraceError(f"{self._folder}: column {name} is not a list of codes")
        codes: npt.NDArray[np.int32] = self.column(name)
        if self.rows and (codes.min() < 0 or int(codes.max()) >= len(self._names[name])):
            raise TraceError(f"{self._folder}: column {name} names unknown entries")
        return codes

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column. It is read, not mapped: a file that shrinks would kill whoever maps it."""
        path = self._folder / f"{list(self._columns).index(name)}.bin"
        dtype = np.dtype(self._columns[name])
        expected = self.rows * dtype.itemsize
        try:
            if path.stat().st_size == expected:
                values = np.fromfile(path, dtype)
                if len(values) == self.rows:
                    return values
        except OSError:
            pass
        raise TraceError(
            f"{path} ({name}) cannot be read or is not {expected} bytes long; import the source "
            "again"
        )

    def table(self) -> pd.DataFrame:
        """The slice table (columns as `trace.tables.Process.slices`, names categorical)."""
        data: dict[str, Any] = {"slice": np.arange(self.rows)}
        for name in self._columns:
            if name in self._names:
                names = pd.Index(self._names[name])
                data[name] = pd.Categorical.from_codes(self._codes(name), categories=names)
            elif name in TABLE:
                data[name] = self.column(name)
        return pd.DataFrame(data)

    def has_vectors(self, side: str) -> bool:
        """Whether block vectors of the `gpu` or `cpu` side were imported."""
        return (self._folder / f"{side}-vectors.npz").exists()

    def vectors(self, side: str) -> sparse.csr_matrix | None:
        """Instruction-weighted block vectors of a side, slices x blocks; None if not imported."""
        path = self._folder / f"{side}-vectors.npz"
        if not self.has_vectors(side):
            return None
        try:
            matrix = sparse.csr_matrix(sparse.load_npz(path))
            matrix.check_format(full_check=True)
            if not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all()):
                raise ValueError("a count is negative or not finite")
        except _DAMAGED as error:
            raise TraceError(f"{path} is damaged ({error}); import the source again") from error
        if matrix.shape[0] != self.rows:
            raise TraceError(f"{path} has {matrix.shape[0]} rows, not {self.rows}; import again")
        return matrix
