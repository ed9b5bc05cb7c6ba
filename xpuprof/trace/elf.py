# SPDX-License-Identifier: Apache-2.0
"""Build-id, addresses and symbols of an ELF program or library."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_FINI = 13
_NT_GNU_BUILD_ID = 3
_MAX_NOTES = 1 << 16
_MAX_PLACE = 1 << 62
_PAGE = 4096
_SYMBOL_TABLES = (2, 11)
_DYNAMIC_SYMBOLS = 11
_FUNCTION = 2
_SHARED_OBJECT, _X86_64 = 3, 62
_MAX_SYMBOLS = 1 << 28


def build_id(path: str | Path) -> str:
    """Build-id (lower-case hex) of a 64-bit little-endian ELF file; "" for any other file."""
    notes = [
        _in_notes(_bytes(path, offset, min(size, _MAX_NOTES)))
        for kind, offset, _, size in _segments(path)
        if kind == _PT_NOTE
    ]
    return next(filter(None, notes), "")


def lowest_address(path: str | Path) -> int:
    """Link address of the file's lowest loaded page: 0 for position-independent code, and for any
    file that is not 64-bit little-endian ELF."""
    loads = [address for kind, _, address, _ in _segments(path) if kind == _PT_LOAD]
    return min(loads, default=0) // _PAGE * _PAGE


def entry_offset(path: str | Path) -> int:
    """Offset of the entry point from the lowest address; 0 as for `lowest_address`."""
    if not (head := _head(path)):
        return 0
    return int(struct.unpack_from("<Q", head, 24)[0]) - lowest_address(path)


def fini_offset(path: str | Path) -> int | None:
    """Offset of the function that runs last at exit (DT_FINI); None if the file names none."""
    for kind, offset, _, size in _segments(path):
        if kind == _PT_DYNAMIC:
            entries = _bytes(path, offset, min(size, _MAX_NOTES))
            for tag, value in struct.iter_unpack("<QQ", entries[: len(entries) // 16 * 16]):
                if tag == _DT_FINI:
                    return int(value) - lowest_address(path)
    return None


def dynamic_loader(path: str | Path) -> str:
    """The program that loads the file's libraries; "" for a static program or any other file."""
    for kind, offset, _, size in _segments(path):
        if kind == _PT_INTERP:
            return os.fsdecode(_bytes(path, offset, min(size, _MAX_NOTES)).rstrip(b"\0"))
    return ""


def is_shared_object(path: str | Path) -> bool:
    """A 64-bit little-endian ELF library (or position-independent program) for x86-64."""
    head = _head(path)
    return bool(head) and struct.unpack_from("<HH", head, 16) == (_SHARED_OBJECT, _X86_64)


def exported(path: str | Path) -> set[str]:
    """Names that the file's dynamic symbol table defines; empty for any other file."""
    found: set[str] = set()
    for symbols, names in _symbols(path, (_DYNAMIC_SYMBOLS,)):
        for name, _, _, section, _, _ in symbols:
            if section and name < len(names):
                end = names.find(b"\0", name)
                found.add(names[name : max(end, name)].decode(errors="replace"))
    return found


def has_symbol(path: str | Path, name: str) -> bool:
    """Whether one of the file's symbol tables names this symbol, defined or not."""
    word = f"\0{name}\0".encode()
    return any(word in names for _, names in _symbols(path, _SYMBOL_TABLES))


def function_offsets(path: str | Path) -> set[int]:
    """Offsets of the functions in the file's symbol tables; empty for a stripped or other file."""
    base = lowest_address(path)
    return {
        address - base
        for symbols, _ in _symbols(path, _SYMBOL_TABLES)
        for _, info, _, _, address, _ in symbols
        if info & 15 == _FUNCTION and address
    }


def _symbols(
    path: str | Path, kinds: tuple[int, ...]
) -> Iterator[tuple[Iterator[tuple[int, ...]], bytes]]:
    """The entries of each symbol table of these kinds, and the names that they refer to."""
    sections = _sections(path)
    for kind, offset, length, link in sections:
        if kind in kinds and link < len(sections):
            symbols = _bytes(path, offset, length)
            names = _bytes(path, *sections[link][1:3])
            yield struct.iter_unpack("<IBBHQQ", symbols[: len(symbols) // 24 * 24]), names


def _bytes(path: str | Path, offset: int, length: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def _head(path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError:
        return b""
    return head if len(head) == 64 and head[:6] == b"\x7fELF\x02\x01" else b""


def _headers(path: str | Path, at: int, sizes_at: int, least: int) -> Iterator[bytes]:
    """Entries of the table whose offset stands at `at` in the file's header, their size and number
    at `sizes_at`; as far as the file goes."""
    if not (head := _head(path)):
        return
    table = int(struct.unpack_from("<Q", head, at)[0])
    size, entries = struct.unpack_from("<HH", head, sizes_at)
    for place in range(table, table + entries * size, size or 1):
        entry = _bytes(path, place, least) if place <= _MAX_PLACE else b""
        if len(entry) < least:
            return
        yield entry


def _sections(path: str | Path) -> list[tuple[int, int, int, int]]:
    """(type, offset in the file, size, linked section) of each section header; a section larger
    than plausible is empty."""
    found = []
    for entry in _headers(path, 40, 58, 64):
        kind, offset, length, link = struct.unpack_from("<4xI16xQQI", entry)
        sane = offset <= _MAX_PLACE and length <= _MAX_SYMBOLS
        found.append((kind, offset if sane else 0, length if sane else 0, link))
    return found


def _segments(path: str | Path) -> list[tuple[int, int, int, int]]:
    """(type, offset in the file, address, size in the file) of each program header."""
    found = []
    for entry in _headers(path, 32, 54, 56):
        kind, _, offset = struct.unpack_from("<IIQ", entry)
        address, length = struct.unpack_from("<Q8xQ", entry, 16)
        if offset <= _MAX_PLACE:
            found.append((kind, offset, address, length))
    return found


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
