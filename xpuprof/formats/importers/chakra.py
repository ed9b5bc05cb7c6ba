# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces (.et): length-delimited protobuf messages, the metadata and then one a
node. The nodes of a device with a start and a duration (is_cpu_op false) are its kernels; times are
whole microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

LARGEST = 1 << 24
"""Bytes of a message."""
LATEST = 1 << 52
NODE_COST = 64
"""Cost in bytes of a node (time, not space)."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
US = 1e-6
Field = tuple[int, "int | bytes"]
ADVICE = "convert it again with chakra_converter"


def load(source: Source, writer: ImportWriter) -> None:
    """Import a trace. Raises InputError when it is damaged or no node of a device has a time."""
    from xpuprof.formats.importers.timeline import Kernels  # loads numpy

    kernels, names = Kernels(source), dict[bytes, str]()
    first, last = LATEST, 0
    with source.binary() as file:
        for number, message in enumerate(_messages(source, file)):
            source.hold(NODE_COST)
            if number == 0:
                continue  # the metadata
            name, start, duration, on_device = _node(source, message)
            if duration:
                first, last = min(first, start), max(last, start + duration)
            if duration and on_device:
                if name not in names:
                    source.hold(len(name) + NODE_COST)
                    names[name] = name.decode("utf-8", "replace")
                kernels.add(names[name], start, duration)
    if not len(kernels):
        source.refuse(
            "has no device node with a duration; it needs times and order to be a profile"
        )
    kernels.write(writer, first, last, US)


def _messages(source: Source, file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(1):
        size = shift = 0
        while True:
            size |= (head[0] & 127) << shift
            if head[0] < 128:
                break
            shift += 7
            head = file.read(1)
            if not head or shift > 28:
                _damaged(source)
        if size > LARGEST or len(message := file.read(size)) < size:
            _damaged(source)
        yield message


def _fields(source: Source, message: bytes) -> Iterator[Field]:
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while at < len(message) and shift < 70:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value
        return _damaged(source)

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == VARINT:
            yield key >> 3, number()
            continue
        if kind not in (FIXED64, BYTES, FIXED32):
            _damaged(source)
        size = number() if kind == BYTES else {FIXED64: 8, FIXED32: 4}[kind]
        if size > len(message) - at:
            _damaged(source)
        yield key >> 3, message[at : at + size]
        at += size


def _node(source: Source, message: bytes) -> tuple[bytes, int, int, bool]:
    """Name, start and duration of a node, and whether it ran on a device."""
    name, start, duration, on_device = b"", 0, 0, False
    for field, value in _fields(source, message):
        if field == 2 and isinstance(value, bytes):
            name = value
        elif field == 6 and isinstance(value, int):
            start = value
        elif field == 7 and isinstance(value, int):
            duration = value
        elif field == 10 and isinstance(value, bytes) and b"is_cpu_op" in value:
            attribute = dict(_fields(source, value))
            on_device = attribute.get(1) == b"is_cpu_op" and not attribute.get(27, 0)
    if max(start, duration) > LATEST:
        _damaged(source)
    return name, start, duration, on_device


def _damaged(source: Source) -> int:
    source.refuse(f"is damaged or not a Chakra trace; {ADVICE}")


def _match(head: Head) -> Match:
    return (
        Match.YES
        if head.path.suffix == ".et" or head.path.suffixes[-2:] == [".et", ".gz"]
        else Match.NO
    )


FORMAT = Importer(
    name="chakra",
    help="Chakra execution trace (.et) with times",
    load=load,
    match=_match,
)
