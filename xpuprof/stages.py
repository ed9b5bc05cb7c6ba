# SPDX-License-Identifier: Apache-2.0
"""What long work says of itself while it runs. The command line shows it; the API shows nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Stage:
    """Work under way. `done`: how many of `what` are done; None: nothing is counted; `of`: their
    number, 0 if unknown."""

    what: str
    done: Callable[[], int] | None = None
    of: int = 0


class Viewer(Protocol):
    """Shows the stages that are open, the widest first."""

    def begin(self, stage: Stage) -> None:
        """A stage within those that are open."""
        ...

    def end(self, stage: Stage) -> None:
        """The stage is over."""
        ...


VIEWER: ContextVar[Viewer | None] = ContextVar("viewer", default=None)
"""Set by the command line."""


@contextmanager
def stage(what: str, done: Callable[[], int] | None = None, of: int = 0) -> Iterator[None]:
    """While it lasts, a stage is open."""
    viewer, own = VIEWER.get(), Stage(what, done, of)
    if viewer is None:
        yield
        return
    viewer.begin(own)
    try:
        yield
    finally:
        viewer.end(own)


def counted(what: str, items: Sequence[T]) -> Iterator[T]:
    """The items, counted while they are worked on. `what`: one of them."""
    done = 0
    with stage(what, lambda: done, len(items)):
        for item in items:
            yield item
            done += 1
