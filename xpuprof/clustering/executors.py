"""Where the work on many runs is done: here, one run after the other, or on Dask's workers.

A piece of work is a function of a few values, which are plain or handles of earlier results. What
`keep` makes stays where it was made; only what is asked for with `get` travels.
"""

from __future__ import annotations

import importlib
import logging
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from xpuprof.errors import EngineError, UsageError

RETRIES = 3
"""A task whose worker dies is done again elsewhere, with whatever it needs, this often."""
FAN = 8
"""Results that one step of `reduced` takes together."""
BATCH = 64
"""Results that are on their way at the same time."""
MEMORY = 1 << 30
"""Bytes of results that `Here` keeps in memory; further ones wait in a temporary folder."""


class Farm(Protocol):
    """Where the work is done."""

    def keep(self, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
        """Handles of function(*item) for each item of the zipped `items`."""
        ...

    def share(self, value: Any) -> Any:
        """A handle of a value that many pieces of work need."""
        ...

    def get(self, handles: Sequence[Any]) -> Iterator[Any]:
        """The results, in order."""
        ...


def reduced(farm: Farm, function: Callable[..., Any], handles: Sequence[Any]) -> Any:
    """Handle of function(function(a, b, ...), function(...), ...) over all `handles`, in order.

    The tree depends on the number of handles alone, so sums come out the same wherever its steps
    are done. `function` takes FAN results, of which the last may be None.
    """
    while len(handles) > 1:
        groups = [handles[i : i + FAN] for i in range(0, len(handles), FAN)]
        columns = list(zip_longest(*groups))  # None where the last group ends
        columns += [(None,) * len(groups)] * (FAN - len(columns))
        handles = farm.keep(function, *columns)
    return handles[0]


class Here:
    """One piece of work after the other, in this process. Use as a context: what did not fit into
    `memory` bytes lies in a temporary folder until then."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._free = memory
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._number = 0

    def keep(self, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
        """Computes at once."""
        return [
            self._kept(function(*(_value(part) for part in item)))
            for item in zip(*items, strict=True)
        ]

    def share(self, value: Any) -> Any:
        """As it is."""
        return value

    def get(self, handles: Sequence[Any]) -> Iterator[Any]:
        """From memory or from the folder."""
        return map(_value, handles)

    def _kept(self, result: Any) -> _Kept:
        size = sys.getsizeof(result)
        if size <= self._free:
            self._free -= size
            return _Kept(result, None, partial(self._returned, size))
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="xpuprof-")
        self._number += 1
        path = Path(self._folder.name) / str(self._number)
        with path.open("wb") as file:
            pickle.dump(result, file, protocol=5)
        return _Kept(None, path, partial(path.unlink, missing_ok=True))

    def _returned(self, size: int) -> None:
        self._free += size

    def __enter__(self) -> Here:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()


class _Kept:
    """A result in memory or in a file; room and file are given back with the last reference."""

    def __init__(self, result: Any, path: Path | None, gone: Callable[[], None]) -> None:
        self._result, self._path, self._gone = result, path, gone

    def value(self) -> Any:
        if self._path is None:
            return self._result
        with self._path.open("rb") as file:
            return pickle.load(file)  # written by ourselves, into a folder of our own

    def __del__(self) -> None:
        self._gone()


def _value(part: Any) -> Any:
    return part.value() if isinstance(part, _Kept) else part


class DaskFarm:
    """Work on Dask workers; use as a context."""

    def __init__(
        self, workers: int = 2, scheduler: str | None = None, memory: str | float = "auto"
    ) -> None:
        """A cluster of `workers` processes on this machine that hold `memory` bytes each (further
        results wait on disk), or the one of a `scheduler`'s address.

        Raises EngineError without Dask, UsageError when the scheduler cannot be reached.
        """
        try:
            self._distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise EngineError(
                "several workers need Dask; install it with: pip install 'xpuprof[dask]'"
            ) from None
        self._cluster: Any = None
        try:
            if scheduler is None:
                self._cluster = self._distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=memory,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,  # errors arrive with the results
                )
            self._client: Any = self._distributed.Client(
                scheduler or self._cluster, timeout="20s", set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot reach the Dask scheduler {scheduler}: {error}") from error

    def keep(self, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
        """Futures of function(*item); data that they make stay on their worker."""
        return list(self._client.map(function, *items, pure=False, retries=RETRIES))

    def share(self, value: Any) -> Any:
        """A future of the value. The scheduler can make it again when its worker dies, which it
        could not do for scattered data."""
        return self._client.submit(_same, value, pure=False, retries=RETRIES)

    def get(self, handles: Sequence[Any]) -> Iterator[Any]:
        """Results, in order. Raises what a task raised."""
        for start in range(0, len(handles), BATCH):
            try:
                yield from self._client.gather(handles[start : start + BATCH])
            except self._distributed.KilledWorker as error:
                raise EngineError(
                    f"Dask gave up a task, because every worker that took it died: {error}; "
                    "give the workers more memory, or take fewer of them"
                ) from error

    def __enter__(self) -> DaskFarm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _same(value: Any) -> Any:
    return value


def open_farm(workers: int | None, scheduler: str | None) -> DaskFarm | Here:
    """Dask's workers when either is given, else this process."""
    return DaskFarm(workers or 2, scheduler) if workers or scheduler else Here()
