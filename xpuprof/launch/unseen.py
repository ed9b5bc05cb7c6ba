# SPDX-License-Identifier: Apache-2.0
"""Processes of the program that use the device runtime without our library: their environment was
cleared, their loader takes no layers, or they call a driver without a loader. Their launches cannot
be seen, which has to be said.

Whoever uses the runtime opens its configuration or a driver first. That wakes us, and the images of
the program's processes tell the rest; there is no polling while no process loads the runtime.
"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from xpuprof.engines.base import Footprint
from xpuprof.launch.streams import in_thread
from xpuprof.trace.records import STREAM_FILES

PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
"""Between two looks at a process that has the runtime, but not yet our library; it doubles."""
ENOUGH_S = 0.5
"""CPU time after which a process with the runtime would have our library, if its environment had
asked for it from the start."""
_IN_OPEN, _IN_CLOEXEC = 0x20, 0o2000000


@dataclass(frozen=True)
class _Missed:
    name: str
    driver: str
    """The driver that it uses without a loader, if so."""


class Unseen:
    """Watches from a thread of its own, while the program runs."""

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint
        self._helper = str(footprint.helper.resolve())
        self._first: dict[int, float] = {}
        self._missed: dict[int, _Missed] = {}
        self._settled: set[int] = set()

    def sentences(self, execution: Path) -> list[str]:
        """A sentence for each process that left no record. Call it after the program has ended."""
        recorded = {folder.name.rpartition("-")[2]: folder for folder in execution.iterdir()}
        runtime, loader = self._footprint.runtime, self._footprint.loader
        found = []
        for pid, missed in sorted(self._missed.items()):
            folder = recorded.get(str(pid))
            # A CPU engine records the process without our library, too; that may yet have come.
            if folder and (not missed.driver or (folder / STREAM_FILES[0]).exists()):
                continue
            how = (
                f"called the {runtime} driver {missed.driver} itself, past the loader that is "
                f"watched; link it with {loader.strip('/')}.so"
                if missed.driver
                else f"used {runtime} without xpuprof's library (was its environment cleared?)"
            )
            found.append(f"process {pid} ({missed.name}) {how}; its launches are not recorded")
        return found

    def look(self) -> bool:
        """Looks at the processes once; whether one has to be looked at again."""
        waiting = False
        for pid in _descendants():
            with suppress(OSError):  # gone, or another user's
                ours = os.readlink(f"/proc/{pid}/exe") == self._helper
                waiting |= not ours and pid not in self._settled and self._waits_for_us(pid)
        return waiting

    def _waits_for_us(self, pid: int) -> bool:
        """Whether the process has the runtime, and may still load our library."""
        images = _read(pid, "maps")
        loader = self._footprint.loader in images
        driver = next((name for name in self._footprint.drivers if name in images), "")
        if self._footprint.library in images:
            self._missed.pop(pid, None)
            return False
        if not (loader or driver):
            return False
        name, _, fields = _read(pid, "stat").partition("(")[2].rpartition(")")
        used = sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
        asked = self._footprint.library in _read(pid, "environ")
        waits = asked and used - self._first.setdefault(pid, used) < ENOUGH_S
        alone = driver if asked and not loader else ""
        # A program that calls a driver itself may end before we can be sure.
        if alone or not waits:
            self._missed[pid] = _Missed(name, alone)
        if not waits:
            self._settled.add(pid)
        return waits


@contextmanager
def unseen(footprint: Footprint | None) -> Iterator[Unseen | None]:
    """Watches for an execution that is about to start; yields None where that is not possible."""
    with ExitStack() as stack:
        found = None
        if footprint:
            with suppress(OSError):
                found = _start(footprint, stack)
        yield found


def _start(footprint: Footprint, stack: ExitStack) -> Unseen:
    """Starts the thread; `stack` ends it."""
    found = Unseen(footprint)
    descriptor = _watch(footprint.opened)
    stack.callback(os.close, descriptor)
    stop_read, stop_write = os.pipe()
    stack.callback(os.close, stop_read)
    thread = in_thread(_loop, found, descriptor, stop_read)
    stack.callback(thread.join)
    stack.callback(os.close, stop_write)
    return found


def _watch(opened: tuple[str, ...]) -> int:
    """A descriptor that becomes readable when one of these files, or a file of these folders, is
    opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(_IN_CLOEXEC))
    watched = [libc.inotify_add_watch(descriptor, os.fsencode(f), _IN_OPEN) >= 0 for f in opened]
    if any(watched):
        return descriptor
    if descriptor >= 0:
        os.close(descriptor)
    raise OSError(ctypes.get_errno(), "nothing can be watched")


def _loop(found: Unseen, descriptor: int, stop: int) -> None:
    # A signal just after the thread's start closes the descriptors before anyone waits for it.
    with suppress(OSError):
        _look_when_opened(found, descriptor, stop)


def _look_when_opened(found: Unseen, descriptor: int, stop: int) -> None:
    pause: float | None = None
    while stop not in (ready := select.select([descriptor, stop], [], [], pause)[0]):
        if ready:
            os.read(descriptor, 65536)
            found.look()  # a process without our library may end soon
            pause = PAUSE_S
        elif pause:
            pause = min(2 * pause, LONGEST_PAUSE_S) if found.look() else None


def _descendants() -> Iterator[int]:
    """Our processes, but for copies of ourselves that have not executed a program."""
    us = psutil.Process()
    own = us.cmdline()
    for process in us.children(recursive=True):
        with suppress(psutil.Error):
            if process.cmdline() != own:
                yield process.pid


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
