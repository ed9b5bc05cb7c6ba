# SPDX-License-Identifier: Apache-2.0
"""Where another process's threads are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GETREGS, DETACH, SEIZE, INTERRUPT = 12, 17, 0x4206, 0x4207
ANY_THREAD = 0x40000000
N_REGISTERS, RIP = 27, 16

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request: int, thread: int, data: object = None) -> None:
    if _libc.ptrace(request, thread, None, data) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def _stopped(thread: int) -> Iterator[None]:
    _ptrace(SEIZE, thread)
    _ptrace(INTERRUPT, thread)
    os.waitpid(thread, ANY_THREAD)
    try:
        yield
    finally:
        _ptrace(DETACH, thread)


def _instruction(thread: int) -> int:
    """0 if the thread has ended."""
    registers = (ctypes.c_ulonglong * N_REGISTERS)()
    try:
        with _stopped(thread):
            _ptrace(GETREGS, thread, ctypes.addressof(registers))
    except ProcessLookupError:
        return 0
    return registers[RIP]


def files_executed(process: int) -> set[str]:
    """The files whose code the process's threads are executing; "" for code in none. Raises OSError
    where the process has ended."""
    parts = []
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        span, _rights, _offset, _device, _inode, *path = line.split(maxsplit=5)
        start, end = (int(bound, 16) for bound in span.split("-"))
        parts.append((start, end, path[0] if path else ""))
    threads = [int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()]
    places = [_instruction(thread) for thread in threads]
    return {path for at in places for start, end, path in parts if start <= at < end}
