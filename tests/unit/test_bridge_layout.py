# SPDX-License-Identifier: Apache-2.0
"""The bridge's structs, numpy's dtypes and the header agree."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xpuprof._bridge import ffi, lib

from xpuprof.trace.layout import CPU, EVENTS, LAUNCH_FLAGS, LDV_BUCKETS, MIX, TABLES, TAGS

HEADER = Path(__file__).parents[2] / "native/include/xpuprof/trace_format.h"


@pytest.mark.parametrize("name", TABLES)
def test_rows_have_the_compilers_layout(name: str) -> None:
    """Size, and offset and size of every field, as the compiler has them."""
    item, dtype = TABLES[name].pointer.item, TABLES[name].dtype
    assert ffi.sizeof(item) == dtype.itemsize
    if item.kind != "struct":
        return
    assert [field for field, _ in item.fields] == list(dtype.names or ())
    for field, description in item.fields:
        kind, offset = dtype.fields[field][:2]
        assert (description.offset, ffi.sizeof(description.type)) == (offset, kind.itemsize), field


def test_every_table_has_a_count() -> None:
    """One each, but for the columns of a list, which share one."""
    lengths = [table.length for table in TABLES.values()]
    assert all(hasattr(ffi.new("xp_counts *"), length) for length in lengths)
    lists = {"vector_pairs", "run_pairs", "bbv_pairs", "ldv_pairs"}
    assert {length for length in lengths if lengths.count(length) > 1} == lists


@pytest.mark.parametrize(("prefix", "stream"), [("XP_EV_", EVENTS), ("XP_CPU_", CPU)])
def test_tags_are_the_headers(prefix: str, stream: int) -> None:
    """Names of tags in messages are those that the header gives."""
    tags = dict(re.findall(rf"  {prefix}([A-Z_]+) = (\d+),", HEADER.read_text()))
    assert {name: int(number) for name, number in tags.items()} == TAGS[stream]


def test_constants_are_those_of_the_format() -> None:
    """The numbers that files hold, spelt out: a change to them is a new version of the format."""
    assert LAUNCH_FLAGS == {"INSTRUMENTED": 1, "LEFT_OUT": 2, "OUTSIDE": 4}
    assert LDV_BUCKETS == 64 and MIX["COUNT"] == 12 and MIX["LOAD_GLOBAL"] == 2


def test_mix_classes_are_the_headers() -> None:
    body = re.search(r"enum xp_mix \{(.*?)\};", HEADER.read_text(), re.S)
    assert body is not None
    names = re.findall(r"XP_MIX_(\w+)", re.sub(r"/\*.*?\*/", "", body[1], flags=re.S))
    assert names[-1] == "COUNT"
    assert TABLES["gpu_blocks"].dtype["mix"].shape == (len(names) - 1,)


def test_crc32c_of_the_standard_vector() -> None:
    """RFC 3720, B.4."""
    assert lib.xp_checksum(b"123456789", 9) == 0xE3069283
    assert lib.xp_checksum(bytes(32), 32) == 0x8A9136AA
    assert lib.xp_checksum(np.arange(32, dtype=np.uint8).tobytes(), 32) == 0x46DD794E
