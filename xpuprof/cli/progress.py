# SPDX-License-Identifier: Apache-2.0
"""A live line on the terminal, while the program runs and while we work for long: in the last row
while the program prints on the terminal, else at the cursor."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from xpuprof.cli.options import note
from xpuprof.launch.watch import LAST_ROW, WATCH, Hidden, giving_back
from xpuprof.stages import VIEWER, Stage, stage
from xpuprof.trace.live import Live

PERIOD = 0.5
"""Seconds between two looks."""
LONG = 3600.0
"""Seconds of a profile that are worth a hint."""
LATE = 600.0
"""Seconds of a profile of unknown length before the hint is given."""
ENOUGH = 5.0
"""Seconds of a profile before the hint is given, and of other work before time left is told."""
PATIENCE = 1.0
"""Seconds of our own work, or of the user's execution, that need no line."""
FEWEST_ROWS = 4
"""Rows of a terminal of which one can be spared."""


def show_progress(quiet: bool, fewest: int = 1, most: int | None = None) -> None:
    """Shows the live line for the executions of this command, `fewest` timer runs or up to `most`,
    and the work after them, if stderr is a terminal."""
    if not quiet and _live():
        WATCH.set(Progress(fewest, most).watch)
        VIEWER.set(Stages())


@contextmanager
def working(command: str, quiet: bool) -> Iterator[None]:
    """Shows the live line of a command that runs no program, if stderr is a terminal."""
    if quiet or not _live():
        yield
        return
    VIEWER.set(Stages())
    with stage(command):
        yield


def _live() -> bool:
    """Whether stderr is a terminal that can erase. Python has none if it was closed."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    return terminal and os.environ.get("TERM") != "dumb"


class Stages:
    """Shows the stages of our own work."""

    def __init__(self) -> None:
        self._open: list[Stage] = []
        self._drawing: _Drawing | None = None

    def begin(self, stage: Stage) -> None:
        """A stage within those that are open."""
        self._open.append(stage)
        if self._drawing is None:
            self._drawing = _Drawing(self.line, PATIENCE)

    def end(self, stage: Stage) -> None:
        """The stage is over."""
        self._open.remove(stage)
        if not self._open and self._drawing:
            self._drawing.end()
            self._drawing = None

    def line(self, elapsed: float) -> str:
        """The live line: the open stages, how far they are, time, and time left."""
        parts, finished, weight = [], 0.0, 1.0
        for one in list(self._open):
            done = one.done() if one.done else 0
            if one.done is None:
                parts.append(one.what)
            elif not one.of:
                parts += [f"{done:,} {one.what}"] if done else []
            elif one.of > 1:
                parts.append(f"{one.what} {min(done + 1, one.of):,} of {one.of:,}")
            if one.of:
                finished += weight * done / one.of
                weight /= one.of
        parts.append(_duration(elapsed))
        if finished and elapsed > ENOUGH:
            parts.append(f"about {_duration(elapsed / finished - elapsed)} left")
        return ", ".join(parts)


class _CursorLine:
    """The line of the cursor: nobody else writes to the terminal."""

    _drawn = False

    def draw(self, text: str) -> None:
        """Shows a text."""
        self._drawn = True
        _tell("\r\x1b[K" + _fitting(text, _size().columns))

    def erase(self) -> None:
        """Erases it, if there was one."""
        if self._drawn:
            _tell("\r\x1b[K")


class _LastRow:
    """The last row, taken out of what scrolls: the program prints above it as if it were not there.
    Nothing is drawn for a background job, or while the program edits lines or fills the screen."""

    _taken: os.terminal_size | None = None

    def draw(self, text: str) -> None:
        """Shows a text, as long as the row may be used."""
        size = _size()
        if size.lines < FEWEST_ROWS or not size.columns or not _may_draw():
            self.erase()
            return
        if size != self._taken:
            self.erase()
            LAST_ROW[0] = 1
            # Down and up: scrolls if the cursor is in the last row. Margins move the cursor.
            _tell(f"\x1bD\x1b[A\x1b7\x1b[1;{size.lines - 1}r\x1b8")
            self._taken = size
        shown = _fitting(text, size.columns)
        _tell(f"\x1b7\x1b[{size.lines};1H\x1b[0m\x1b[K{shown}\x1b8")

    def erase(self) -> None:
        """Erases the text and lets the row scroll again."""
        if self._taken:
            _tell(giving_back(self._taken.lines))
            self._taken = None
            LAST_ROW[0] = 0


def _size() -> os.terminal_size:
    """The terminal's size; 0 columns if it is unknown or the terminal is gone."""
    try:
        return os.get_terminal_size(2)
    except OSError:
        return os.terminal_size((0, 0))


def _fitting(text: str, columns: int) -> str:
    return f"xpuprof: {text}"[: columns - 1 if columns else None]


def _tell(text: str) -> None:
    """Writes at once, so that what the program writes meanwhile stands before or after it; and past
    Python's stream, whose lock a fork could copy."""
    with suppress(OSError):
        os.write(2, text.encode())


def _may_draw() -> bool:
    """Whether our job has the terminal, which reads lines."""
    try:
        return os.tcgetpgrp(2) == os.getpgrp() and bool(termios.tcgetattr(2)[3] & termios.ICANON)
    except (OSError, termios.error):  # not our controlling terminal
        return True


class _Drawing:
    """Draws a line again and again from a thread of its own, until it is told to end."""

    def __init__(
        self,
        line: Callable[[float], str],
        patience: float = 0.0,
        place: _CursorLine | _LastRow | None = None,
    ) -> None:
        self._line, self._patience, self._place = line, patience, place or _CursorLine()
        self._began, self._over, self._lock = monotonic(), threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        _start_deaf(self._thread)

    def end(self) -> None:
        """Erases the line, if there was one."""
        self._over.set()
        self._thread.join()
        self._place.erase()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """The line is erased, and not drawn."""
        with self._lock:
            self._place.erase()
            yield

    def _draw(self) -> None:
        while not self._over.wait(PERIOD):
            elapsed = monotonic() - self._began
            text = self._line(elapsed) if elapsed > self._patience else ""
            if text:
                with self._lock:
                    self._place.draw(text)


class Progress:
    """Watches the executions of one command."""

    def __init__(self, fewest: int = 1, most: int | None = None) -> None:
        self._fewest = fewest
        self._of = f"{fewest}" if most in (None, fewest) else f"{fewest} to {most}"
        self._launches = 0
        self._durations: list[float] = []
        self._hinted = False
        self._start: tuple[float, int] | None = None

    @contextmanager
    def watch(self, folder: Path, role: str, user: bool) -> Iterator[Hidden]:
        """While an execution is recorded in `folder`; `user`: it has the terminal."""
        self._start = None
        live, began = Live(folder), monotonic()

        def line(elapsed: float) -> str:
            return self.line(live.launches(), live.bytes(), role, elapsed)

        drawing = _Drawing(line, PATIENCE, _LastRow()) if user else _Drawing(line)
        try:
            yield drawing.hidden
        finally:
            drawing.end()
            self._launches = max(self._launches, live.launches())
            if role == "time":
                self._durations.append(monotonic() - began)

    def line(self, launches: int, size: int, role: str, elapsed: float) -> str:
        """The live line: stage, launches so far, rate, elapsed time, size, time left."""
        stage = "native run" if role == "first" else role
        if role == "time":
            stage = f"timer run {len(self._durations) + 1} of {self._of}"
        of = f" of {self._launches:,}" if self._launches else ""
        parts = [f"{launches:,}{of} launches", _duration(elapsed), f"{size / 1e6:,.1f} MB"]
        if launches and self._start is None:
            self._start = (elapsed, launches)
        if role == "profile" and not self._launches and elapsed > LATE:
            self._hint(f"the profile has taken {_duration(LATE)} and {launches:,} launches")
        rate = self._rate(launches, elapsed)
        if rate:
            parts.insert(1, f"{rate:,.0f}/s")
        if self._launches and launches >= self._launches:
            parts.append("the program is ending")
        elif (left := self._left(launches, role, elapsed, rate)) is not None:
            parts.append(f"about {_duration(left)} left")
        return f"{stage}: {', '.join(parts)}"

    def _rate(self, launches: int, elapsed: float) -> float:
        """Launches per second since the first; start-up is slow under CPU engines."""
        if self._start is None or elapsed < self._start[0] + 1.0:
            return 0.0
        return (launches - self._start[1]) / (elapsed - self._start[0])

    def _left(self, launches: int, role: str, elapsed: float, rate: float) -> float | None:
        """Seconds to go, of this profile or of all timer runs; None if there is no telling yet."""
        if role == "time":
            if not self._durations:
                return None
            done = len(self._durations)
            return max(0.0, sum(self._durations) / done * max(1, self._fewest - done) - elapsed)
        if role != "profile" or not rate or not self._launches:
            return None
        left = (self._launches - launches) / rate
        if left > LONG and elapsed > ENOUGH:
            self._hint(f"at this rate the profile takes {_duration(left)} more")
        return left

    def _hint(self, why: str) -> None:
        """Says once what makes a profile shorter."""
        if not self._hinted:
            self._hinted = True
            note(
                f"{why}; --window profiles a part, and a faster engine helps: xpuprof doctor",
                quiet=False,
            )


def _start_deaf(thread: threading.Thread) -> None:
    """Starts it without signals, which are the launcher's to forward."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _duration(seconds: float) -> str:
    """`42 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
