# SPDX-License-Identifier: Apache-2.0
"""What an execution could not record. The libraries in the program's processes leave a line each
time they cannot write; processes may also outlive the program."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xpuprof.trace.losses import FOLDER, LINE_MAX, printable, sentence, written

ENV_FAILURES = "XPUPROF_FAILURES"
"""boundary.h: abstract name of the socket for failures that cannot be written to the folder."""
GRACE_S = 1.0
"""How long processes may take to end after the program before they count as outliving it."""


class Losses:
    """Collects the lines `pid reason` of one execution: files in its folder `failures`, and
    datagrams from processes that cannot write there (another user, another root, a full disk)."""

    def __init__(self, folder: Path, receiver: socket.socket | None) -> None:
        self._execution = folder
        self._receiver = receiver
        self.environment = {ENV_FAILURES: receiver.getsockname()[1:].decode()} if receiver else {}

    def sentences(self) -> list[str]:
        """What was lost, one sentence each. Call it after the program has ended."""
        lines = [*written(self._execution), *self._received()]
        told = [sentence(line) for line in dict.fromkeys(lines)]
        alive = _wait_for_end(self._execution)
        if alive:
            more = f" and {len(alive) - 3} more" if len(alive) > 3 else ""
            they = "it" if len(alive) == 1 else "they"
            told.append(
                f"{', '.join(alive[:3])}{more} outlived the program; what {they} did then is not "
                "recorded"
            )
        return told

    def _received(self) -> Iterator[str]:
        while self._receiver:
            try:
                yield printable(self._receiver.recv(LINE_MAX))
            except BlockingIOError:
                return


@contextmanager
def losses(folder: Path) -> Iterator[Losses]:
    """Opens folder and socket for an execution that is about to start."""
    failures = folder / FOLDER
    failures.mkdir()
    failures.chmod(0o1777)  # for processes that change their user
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.setblocking(False)
        receiver.bind(f"\0xpuprof-{secrets.token_hex(12)}")
        try:
            yield Losses(folder, receiver)
        finally:
            with suppress(OSError):  # it has entries
                failures.rmdir()


def _wait_for_end(folder: Path) -> list[str]:
    """Processes of the execution still alive after GRACE_S: `process 12 (name)`.

    In the middle of exec a process shows no environment, so it takes two looks to believe in none.
    """
    deadline = time.monotonic() + GRACE_S
    alive = _alive(folder)
    while time.monotonic() < deadline:
        time.sleep(0.01)
        before, alive = alive, _alive(folder)
        if not before and not alive:
            break
    return alive


def _alive(folder: Path) -> list[str]:
    sign = b"XPUPROF_DIR=" + os.fsencode(folder.resolve())
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = Path(entry.path, "environ").read_bytes()
                if sign in environment.split(b"\0"):
                    name = Path(entry.path, "comm").read_text(errors="replace").strip()
                    found.append(f"process {entry.name} ({name})")
            except OSError:  # gone, or another user's
                continue
    return found
