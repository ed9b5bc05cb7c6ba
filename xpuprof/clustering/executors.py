# SPDX-License-Identifier: Apache-2.0
"""Executors for work on many runs: in this process, run by run, or on Dask workers.

A task is a function of a few values, either plain or handles of earlier results. The results of
`map` stay where they were computed; only `results` transfers them.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import zip_longest
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from xpuprof.errors import EngineError, UsageError
from xpuprof.stages import counted, stage

T = TypeVar("T")

RETRIES = 3
"""How often a task whose worker dies is repeated elsewhere, with its inputs."""
FAN_IN = 8
"""Results combined by one step of `reduce_tree`."""
BATCH = 64
"""Results in transit at the same time."""
REACHED_S, STARTED_S = 5, 20
"""Seconds to wait for a scheduler that was named, and for one that starts here."""


@dataclass(frozen=True, eq=False)
class Handle(Generic[T]):
    """A result held by an executor; its memory is freed with the last handle."""

    kept: Any
    """The value or a Dask future."""


class Executor(Protocol):
    """Runs tasks and holds their results."""

    def map(
        self, function: Callable[..., T], *columns: Sequence[object], what: str = ""
    ) -> list[Handle[T]]:
        """Handles of `function(*row)` for each row of the columns, whose cells may be handles.
        `what`: a row, to be counted for the user."""
        ...

    def share(self, value: T) -> Handle[T]:
        """A handle of a value that many tasks need."""
        ...

    def results(self, handles: Sequence[Handle[T]]) -> Iterator[T]:
        """The values, in order."""
        ...


def reduce_tree(
    executor: Executor, function: Callable[..., T], handles: Sequence[Handle[Any]]
) -> T:
    """function(function(a, b, ...), function(...), ...) over all `handles`, in order.

    The tree depends only on the number of handles, so sums are equal wherever its steps run.
    `function` takes FAN_IN results; trailing ones may be None.
    """
    while len(handles) > 1:
        groups = [handles[i : i + FAN_IN] for i in range(0, len(handles), FAN_IN)]
        columns = list(zip_longest(*groups))  # pads the last group
        columns += [(None,) * len(groups)] * (FAN_IN - len(columns))
        handles = executor.map(function, *columns)
    whole: T = next(executor.results(handles[:1]))
    return whole


class LocalExecutor:
    """Runs one task after the other in this process."""

    def map(
        self, function: Callable[..., T], *columns: Sequence[object], what: str = ""
    ) -> list[Handle[T]]:
        """Computes at once."""
        rows = list(zip(*columns, strict=True))
        return [
            Handle(function(*(_kept(cell) for cell in row)))
            for row in (counted(what, rows) if what else rows)
        ]

    def share(self, value: T) -> Handle[T]:
        """The value, without a copy."""
        return Handle(value)

    def results(self, handles: Sequence[Handle[T]]) -> Iterator[T]:
        """The values."""
        return (handle.kept for handle in handles)


def _kept(cell: object) -> object:
    return cell.kept if isinstance(cell, Handle) else cell


class DaskExecutor:
    """Runs tasks on Dask workers; use as a context manager."""

    def __init__(
        self, workers: int = 2, scheduler: str | None = None, memory: str | float = "auto"
    ) -> None:
        """Start `workers` processes on this machine with `memory` bytes each (more results spill to
        disk), or connect to the cluster at `scheduler`.

        Raises EngineError without Dask, UsageError when the scheduler cannot be reached.
        """
        try:
            self._distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise EngineError(
                "several workers need Dask; install it with: pip install 'xpuprof[dask]'"
            ) from None
        if scheduler is not None:
            self._refuse_malformed(scheduler)
        self._cluster: Any = None
        try:
            if scheduler is None:
                self._cluster = self._distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=memory,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,  # errors are reported with the results
                )
            self._client: Any = self._distributed.Client(
                scheduler or self._cluster,
                timeout=f"{REACHED_S if scheduler else STARTED_S} s",
                set_as_default=False,
            )
        except OSError as error:
            if scheduler is None:
                raise EngineError(
                    f"the Dask workers do not start ({error}); take fewer of them"
                ) from error
            raise UsageError(
                f"cannot reach a Dask scheduler at {scheduler} ({error}); start one there with "
                "`dask scheduler`, or correct the address"
            ) from error

    def _refuse_malformed(self, scheduler: str) -> None:
        """Raises UsageError unless it is an address. A client that was given none cannot be closed:
        it waits, and prints a traceback."""
        addressing = importlib.import_module("distributed.comm.addressing")
        try:
            _, port = addressing.get_address_host_port(scheduler)
        except ValueError:
            port = 0
        if not 0 < port < 1 << 16:
            raise UsageError(
                f"{scheduler!r} is not the address of a Dask scheduler; give it as tcp://HOST:PORT"
            )

    def map(
        self, function: Callable[..., T], *columns: Sequence[object], what: str = ""
    ) -> list[Handle[T]]:
        """Submits tasks; their results stay on the workers. With `what`, waits for them."""
        cells = [[_kept(cell) for cell in column] for column in columns]
        futures = self._client.map(function, *cells, pure=False, retries=RETRIES)
        if what:
            done = stage(what, lambda: sum(future.done() for future in futures), len(futures))
            with done, self._client.as_current():  # wait() takes the current client
                self._distributed.wait(futures)
        return [Handle(future) for future in futures]

    def share(self, value: T) -> Handle[T]:
        """Submit the value as a task: if its worker dies, the scheduler can repeat it, unlike
        scattered data."""
        return Handle(self._client.submit(_same, value, pure=False, retries=RETRIES))

    def results(self, handles: Sequence[Handle[T]]) -> Iterator[T]:
        """Gathers batch by batch. Raises any task's exception."""
        for start in range(0, len(handles), BATCH):
            try:
                yield from self._client.gather([h.kept for h in handles[start : start + BATCH]])
            except self._distributed.KilledWorker as error:
                raise EngineError(
                    f"Dask gave up a task, because every worker that ran it died: {error}; "
                    "give the workers more memory, or take fewer of them"
                ) from error

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _same(value: T) -> T:
    return value


def open_executor(
    workers: int | None = None, scheduler: str | None = None
) -> AbstractContextManager[Executor]:
    """Dask workers if either is given, else this process."""
    if workers or scheduler:
        return DaskExecutor(workers or 2, scheduler)
    return nullcontext(LocalExecutor())
