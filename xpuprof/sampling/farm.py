"""Dask workers as a `job.Farm`: a local cluster, or a scheduler's address."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from xpuprof.errors import EngineError, UsageError

RETRIES = 3
"""A task whose worker dies is done again elsewhere, with whatever it needs, this often."""


class DaskFarm:
    """Work on Dask workers; use as a context."""

    def __init__(self, workers: int = 2, scheduler: str | None = None) -> None:
        """Raises EngineError without Dask, UsageError when the scheduler cannot be reached."""
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise EngineError(
                "several workers need Dask; install it with: pip install 'xpuprof[dask]'"
            ) from None
        self._cluster: Any = None
        try:
            if scheduler is None:
                self._cluster = distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None
                )
            self._client: Any = distributed.Client(scheduler or self._cluster, timeout="20s")
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot reach the Dask scheduler {scheduler}: {error}") from error

    def keep(self, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
        """Futures of function(*item); data that they make stay on their worker."""
        return list(self._client.map(function, *items, pure=False, retries=RETRIES))

    def get(self, handles: list[Any]) -> list[Any]:
        """Results, in order. Raises what a task raised."""
        return list(self._client.gather(handles))

    def __enter__(self) -> DaskFarm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
