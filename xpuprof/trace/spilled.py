# SPDX-License-Identifier: Apache-2.0
"""Arrays as long as a run in temporary files, so that memory does not grow with their number."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref

import numpy as np

from xpuprof.arrays import F64, I64


class Spilled:
    """Rows of equal length, read back piece by piece: a context. Raises OSError when the temporary
    file, which has no name, cannot be written."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="xpuprof-")  # noqa: SIM115 (closed on exit)
        self._sums: list[float] = []
        self.length = 0
        """Values per row."""

    def add(self, row: F64) -> None:
        """Appends a row."""
        try:
            self._file.write(row.data)
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
        self._sums.append(float(row.sum()))
        self.length = len(row)

    @property
    def sums(self) -> F64:
        """The sum of each row."""
        return np.array(self._sums)

    def read(self, piece: slice) -> F64:
        """float64[rows, piece]."""
        rows = np.empty((len(self._sums), piece.stop - piece.start))
        for number, row in enumerate(rows):
            at = row.itemsize * (number * self.length + piece.start)
            row[:] = np.frombuffer(os.pread(self._file.fileno(), row.nbytes, at))
        return rows

    def __enter__(self) -> Spilled:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class SpilledArray:
    """An array in a temporary file for as long as this object lives. Raises OSError when the file
    cannot be written."""

    def __init__(self, values: I64) -> None:
        with tempfile.TemporaryFile(prefix="xpuprof-") as file:
            file.write(values.data)
            file.flush()
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)

    def read_into(self, values: I64) -> None:
        """The array, into one of its length."""
        done, room = 0, values.view(np.uint8).data
        while done < values.nbytes:
            read = os.preadv(self._file, [room[done:]], done)
            if not read:
                raise OSError(errno.EIO, os.strerror(errno.EIO), tempfile.gettempdir())
            done += read
