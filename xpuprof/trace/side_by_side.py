# SPDX-License-Identifier: Apache-2.0
"""Reading of two executions at a time: most of it is native code and numpy's, which run without the
interpreter's lock. Not of more, since each takes memory, some bytes a launch."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import TypeVar

AT_A_TIME = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """work(item) for each item, in order, AT_A_TIME where there are as many processors. Raises what
    `work` raised first in this order."""
    found: list[Future[Result]] = [Future() for _ in items]
    waiting = deque(zip(found, items, strict=True))

    def take() -> None:
        with suppress(IndexError):
            while True:
                result, item = waiting.popleft()
                _settle(result, work, item)

    for _ in range(min(len(items), len(os.sched_getaffinity(0)), AT_A_TIME) - 1):
        with suppress(RuntimeError):  # the user may have no further thread: this one does it all
            Thread(target=take, daemon=True).start()
    try:
        take()
    finally:
        waiting.clear()  # an interrupt ends this thread only
    return [result.result() for result in found]


def _settle(result: Future[Result], work: Callable[[Item], Result], item: Item) -> None:
    try:
        result.set_result(work(item))
    except Exception as error:
        result.set_exception(error)
