"""The bridge's structs, numpy's dtypes and the header agree."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xpuprof._bridge import ffi, lib

from xpuprof.trace import streams

HEADER = Path(__file__).parents[2] / "native/include/xpuprof/trace_format.h"


@pytest.mark.parametrize("name", streams.DTYPES)
def test_struct_layout_equals_dtype(name: str) -> None:
    """Size, and offset and size of every field."""
    struct, dtype = ffi.typeof(f"xp_{name}_row"), streams.DTYPES[name]
    assert ffi.sizeof(struct) == dtype.itemsize
    assert [field for field, _ in struct.fields] == list(dtype.names or ())
    for field, description in struct.fields:
        kind, offset = dtype.fields[field][:2]
        assert (description.offset, ffi.sizeof(description.type)) == (offset, kind.itemsize), field


def test_every_row_struct_has_a_dtype() -> None:
    source = (HEADER.parents[2] / "bridge/bridge_api.h").read_text()
    assert set(re.findall(r"struct xp_(\w+)_row", source)) == set(streams.DTYPES)


def test_every_array_is_filled() -> None:
    """xp_arrays has no field that Python leaves out, and its element sizes are those of numpy."""
    fields = dict(ffi.typeof("xp_arrays").fields)
    assert set(fields) == set(streams._ARRAYS)
    for name, (_, dtype) in streams._ARRAYS.items():
        assert ffi.sizeof(fields[name].type.item) == dtype.itemsize, name


@pytest.mark.parametrize(("prefix", "stream"), [("XP_EV_", 1), ("XP_CPU_", 2)])
def test_tags_are_the_headers(prefix: str, stream: int) -> None:
    """Names of tags in messages are those that the header gives."""
    tags = dict(re.findall(rf"  {prefix}([A-Z_]+) = (\d+),", HEADER.read_text()))
    assert {int(number): name for name, number in tags.items()} == streams._TAGS[stream]


def test_mix_classes_are_the_headers() -> None:
    body = re.search(r"enum xp_mix \{(.*?)\};", HEADER.read_text(), re.S)
    assert body is not None
    names = re.findall(r"XP_MIX_(\w+)", re.sub(r"/\*.*?\*/", "", body[1], flags=re.S))
    assert names[-1] == "COUNT"
    assert streams.DTYPES["gpu_block"]["mix"].shape == (len(names) - 1,)


def test_crc32c_of_the_standard_vector() -> None:
    """RFC 3720, B.4."""
    assert lib.xp_checksum(b"123456789", 9) == 0xE3069283
    assert lib.xp_checksum(bytes(32), 32) == 0x8A9136AA
    assert lib.xp_checksum(np.arange(32, dtype=np.uint8).tobytes(), 32) == 0x46DD794E
