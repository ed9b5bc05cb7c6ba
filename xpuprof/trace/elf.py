"""The build-id of a program or library: what names it on every machine."""

from __future__ import annotations

import struct
from pathlib import Path

_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_MAX_NOTES = 1 << 16


def build_id(path: str | Path) -> str:
    """Build-id (lower-case hex) of a 64-bit little-endian ELF file; "" for any other file."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
                return ""
            table, size, entries = struct.unpack_from("<Q", head, 32)[0], *_sizes(head)
            for number in range(entries):
                file.seek(table + number * size)
                entry = file.read(56)
                if len(entry) < 56:
                    return ""
                if struct.unpack_from("<I", entry)[0] != _PT_NOTE:
                    continue
                offset, length = struct.unpack_from("<Q", entry, 8)[0], _file_size(entry)
                file.seek(offset)
                found = _in_notes(file.read(min(length, _MAX_NOTES)))
                if found:
                    return found
    except (OSError, OverflowError, ValueError):
        pass
    return ""


def _sizes(head: bytes) -> tuple[int, int]:
    size, entries = struct.unpack_from("<HH", head, 54)
    return size, entries


def _file_size(entry: bytes) -> int:
    return int(struct.unpack_from("<Q", entry, 32)[0])


def _in_notes(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        data = name + (name_size + 3) // 4 * 4
        if data + size > len(notes):
            return ""
        if kind == _NT_GNU_BUILD_ID and notes[name : name + name_size] == b"GNU\0":
            return notes[data : data + size].hex()
        at = data + (size + 3) // 4 * 4
    return ""
