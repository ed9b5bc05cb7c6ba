# SPDX-License-Identifier: Apache-2.0
"""Streams: literal bytes, round trips through the real writer, damage of every kind."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xpuprof._bridge import lib

from tests.support import traces
from tests.support.streams import varint
from xpuprof.trace.layout import CPU, EVENTS
from xpuprof.trace.streams import Stream, StreamError, read_stream

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
NAME = st.text(max_size=20)


def chunk(payload: bytes, stream: int = CPU, version: int = 1, state: int = 2) -> bytes:
    """A chunk laid out as in trace_format.h, without the writer."""
    crc = lib.xp_checksum(payload, len(payload)) if state == 2 else 0
    header = struct.pack("<IHHIIQQQ", 0x31545058, stream, version, state, crc, len(payload), 0, 0)
    return header + payload + bytes(-len(payload) % 8)


def read(tmp_path: Path, data: bytes, stream: int = CPU) -> Stream:
    path = tmp_path / "x.xpt"
    path.write_bytes(data)
    return read_stream(path, stream)


# ---- literal bytes -------------------------------------------------------------------------------


def test_literal_cpu_stream(tmp_path: Path) -> None:
    """Every CPU record, written out by hand."""
    bbv_body = b"\x00\x00\x02" + varint(901) + b"\x00" + varint(300) + b"\x01\x01"
    payload = (
        b"\x01\x06\x03pid\x014"
        b"\x02\x05\x00\x01a\x01b"
        b"\x03\x05\x00\x00\x80\x02\x03"
        b"\x03\x04\x01\x00\x07\x01"
        b"\x04\x02\x00\x09"
    )
    payload += b"\x05" + bytes([len(bbv_body)]) + bbv_body
    payload += b"\x06\x0b\x00" + b"\x11\x22\x33\x44\x55\x66\x77\x08" + varint(901)
    payload += b"\x0f\x03\x01" + varint(901)
    stream = read(tmp_path, chunk(payload))
    assert stream.meta() == {"pid": "4"}
    assert stream.text(stream["images"]["build_id"][0]) == "a"
    assert stream.text(stream["images"]["path"][0]) == "b"
    assert stream["cpu_blocks"]["offset"].tolist() == [256, 7]
    assert stream["cpu_blocks"]["instructions"].tolist() == [3, 1]
    assert stream["threads"]["system_id"].tolist() == [9]
    assert stream["bbvs"][["slice", "thread", "instructions", "n_pairs"]].tolist() == [
        (0, 0, 901, 2)
    ]
    assert stream["bbv_block"].tolist() == [0, 1]
    assert stream["bbv_count"].tolist() == [300, 1]
    assert stream["cuts"].tolist() == [(0, 0x0877665544332211, 901)]
    assert stream.ended
    assert stream.end == (1, 901)


@pytest.mark.parametrize("slices", [[0, 1, 4], [3, 2], [0]])
def test_a_chunk_tells_its_slices(tmp_path: Path, slices: list[int]) -> None:
    """GIVEN records of slices, the first one among them THEN the chunk's header has their range."""
    path = tmp_path / "x.xpt"
    traces.write_stream(path, CPU, [traces.meta("a", "b"), *(traces.cut(i, 1, 1) for i in slices)])
    header = struct.unpack_from("<IHHIIQQQ", path.read_bytes())
    assert header[-2:] == (min(slices), max(slices))


def test_unknown_tags_are_skipped(tmp_path: Path) -> None:
    payload = b"\x0e\x03abc" + b"\x04\x02\x00\x09" + b"\x63\x00"
    stream = read(tmp_path, chunk(payload))
    assert len(stream["threads"]) == 1
    assert stream.unknown_records == 2
    assert not stream.ended


def test_largest_varint(tmp_path: Path) -> None:
    top = (1 << 64) - 1
    body = b"\x00" + varint(top)
    stream = read(tmp_path, chunk(b"\x04" + bytes([len(body)]) + body))
    assert stream["threads"]["system_id"].tolist() == [top]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"\x04\x0c\x00" + b"\xff" * 9 + b"\x02\x00", "does not end"),  # 65 bits
        (b"\x04\x0c\x00" + b"\x80" * 11, "does not end"),
        (b"\x04\x02\x00\x80", "does not end"),  # exceeds its record
        (b"\x04\x05\x00", "crosses the end"),
        (b"\x04\x80", "crosses the end"),
        (b"\x04\x03\x00\x01\x01", "too long"),
        (b"\x06\x03\x00\x00\x00", "too short"),
        (b"\x01\x02\x7fa", "claims 127 entries"),
        (b"\x04\x02\x01\x01", "id 1, out of order"),
        (b"\x03\x04\x00\x00\x00\x00", "no record before"),  # no image 0
        (b"\x05\x04\x00\x00\x00\x00", "no record before"),  # no thread 0
        (b"\x04\x02\x00\x01" + b"\x05\x0d\x00\x00" + b"\xff" * 8 + b"\x7f\x00\x00",
         "entries, more than it holds"),
        (b"\x04\x02\x00\x01" + b"\x05\x06\x00\x00\x01\x05\x00\x05", "no record before"),  # no block
        (b"\x06\x0e" + varint(1 << 32) + bytes(8) + b"\x00", "too large"),
    ],
)  # fmt: skip
def test_bad_records_are_refused(tmp_path: Path, payload: bytes, words: str) -> None:
    with pytest.raises(StreamError, match=words):
        read(tmp_path, chunk(payload))


def test_blocks_of_a_vector_ascend(tmp_path: Path) -> None:
    records = [*traces.cpu(1)[:5], (5, b"\0\0\2\6" + b"\0\1\0\1", 0)]
    path = traces.write_stream(tmp_path / "x", CPU, records)
    with pytest.raises(StreamError, match="out of order"):
        read_stream(path, CPU)


def test_a_vector_stays_in_its_kernel(tmp_path: Path) -> None:
    """Block 1 exists, but not in kernel 1; a grid cannot use another kernel's vector."""
    for bad in (traces.vector(3, 1, [(1, 1)]), traces.grid(2, 0, 1, [(1, 1)], 5)):
        records = [*traces.events()[:11], bad]
        path = traces.write_stream(tmp_path / f"x{bad[0]}", EVENTS, records)
        with pytest.raises(StreamError, match="no record before"):
            read_stream(path, EVENTS)


# ---- whole files that are not ours ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x7fELF" + bytes(200), "is not an xpuprof trace"),
        (b"hello", "is not an xpuprof trace"),
        (chunk(b"", version=2), "version 2 and this xpuprof reads up to 1; install a newer"),
        (chunk(b"", version=0), "version 0, which no xpuprof ever wrote"),
        (chunk(b"", stream=EVENTS), "kind 1 where kind 2 belongs"),
        (chunk(b"", state=3), "no chunk starts there"),
        (chunk(b"\x04\x02\x00\x09")[:30], "truncated"),
        (chunk(b"\x04\x02\x00\x09")[:42], "truncated"),
        (chunk(b"\x04\x02\x00\x09") + b"rubbish, forty bytes of it, or some more",
         "no chunk starts there"),
        (chunk(b"\x04\x02\x00\x09", state=1) + chunk(b""), "no chunk starts there"),
        (chunk(b"\x04\x02\x00\x09") + bytes(60) + b"x", "no chunk starts there"),
    ],
)  # fmt: skip
def test_foreign_files_are_named(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(StreamError, match=words) as caught:
        read(tmp_path, data)
    message = str(caught.value)
    assert "x.xpt" in message
    assert "\n" not in message


def test_a_length_of_exabytes_allocates_nothing(tmp_path: Path) -> None:
    data = bytearray(chunk(b"\x04\x02\x00\x09"))
    data[16:24] = struct.pack("<Q", 1 << 62)
    with pytest.raises(StreamError, match="truncated"):
        read(tmp_path, bytes(data))


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(5000)])
def test_a_stream_whose_writer_died_first_is_empty(tmp_path: Path, data: bytes) -> None:
    stream = read(tmp_path, data)
    assert not stream.ended
    assert stream.chunks == 0


def test_a_folder_or_a_missing_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(StreamError, match="cannot be opened"):
            read_stream(path, CPU)


# ---- round trips through the writer --------------------------------------------------------------


@st.composite
def vectors(draw: st.DrawFn, blocks: int) -> list[tuple[int, int]]:
    chosen = draw(st.lists(st.integers(0, blocks - 1), unique=True, max_size=blocks))
    return [(b, draw(U64)) for b in sorted(chosen)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cpu_round_trip(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """The writer's input is read back in order, with any chunking."""
    draw = data.draw
    images = draw(st.lists(st.tuples(NAME, NAME), min_size=1, max_size=4))
    block = st.tuples(st.integers(0, len(images) - 1), U64, U32)
    blocks = draw(st.lists(block, min_size=1, max_size=20))
    threads = draw(st.lists(U64, min_size=1, max_size=3))
    slices = draw(st.integers(0, 5))
    bbvs = [
        (s, t, draw(vectors(len(blocks))), draw(U64))
        for s in range(slices)
        for t in range(len(threads))
    ]
    cuts = [(s, draw(U64), draw(U64)) for s in range(slices)]
    records = [traces.image(i, *texts) for i, texts in enumerate(images)]
    records += [traces.block(i, *rest) for i, rest in enumerate(blocks)]
    records += [traces.thread(i, number) for i, number in enumerate(threads)]
    records += [traces.bbv(*row) for row in bbvs] + [traces.cut(*row) for row in cuts]
    for at in sorted(draw(st.lists(st.integers(0, len(records)), max_size=4)), reverse=True):
        records.insert(at, traces.SEAL)
    path = tmp_path_factory.mktemp("cpu") / "cpu.xpt"
    closed = draw(st.booleans())
    traces.write_stream(path, CPU, [*records, traces.end(1, 2)] if closed else records, closed)

    stream = read_stream(path, CPU)
    assert stream.ended == closed
    assert stream.texts(stream["images"]["build_id"]) == [text for text, _ in images]
    assert stream.texts(stream["images"]["path"]) == [text for _, text in images]
    rows = stream["cpu_blocks"][["image", "offset", "instructions"]].tolist()
    assert rows == blocks
    for row, (image, offset, instructions) in zip(stream["cpu_blocks"], blocks, strict=True):
        build_id = images[image][0].encode()
        expected = lib.xp_identity_cpu(build_id, len(build_id), offset, instructions)
        assert int(row["identity"]) == expected
    assert stream["threads"]["system_id"].tolist() == threads
    assert stream["cuts"].tolist() == cuts
    assert stream["bbvs"][["slice", "thread", "instructions"]].tolist() == [
        (s, t, total) for s, t, _, total in bbvs
    ]
    pairs = [pair for _, _, vector, _ in bbvs for pair in vector]
    assert (
        list(zip(stream["bbv_block"].tolist(), stream["bbv_count"].tolist(), strict=True)) == pairs
    )
    assert stream["bbvs"]["n_pairs"].tolist() == [len(vector) for _, _, vector, _ in bbvs]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_events_round_trip(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    draw = data.draw
    hashes = draw(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=3))
    kernel = st.tuples(
        st.integers(0, len(hashes) - 1),
        NAME,
        st.lists(st.integers(0, 65535), min_size=1, max_size=6),
        NAME,
    )
    kernels = draw(st.lists(kernel, min_size=1, max_size=4))
    records = [traces.program(i, h) for i, h in enumerate(hashes)]
    records += [traces.kernel(i, *rest) for i, rest in enumerate(kernels)]
    first = np.cumsum([0] + [len(k[2]) for k in kernels])
    found: list[Any] = []
    grids: list[Any] = []
    for k, (_, _, blocks, _) in enumerate(kernels):
        own = draw(st.lists(vectors(len(blocks)), min_size=1, max_size=3))
        runs = st.lists(st.tuples(st.integers(0, len(own) - 1), U64), max_size=4)
        grids.append((k, draw(U64), [(v + len(found), n) for v, n in draw(runs)], draw(U64)))
        found += [(k, vector) for vector in own]
    records += [traces.vector(i, *rest) for i, rest in enumerate(found)]
    records += [traces.grid(i, *rest) for i, rest in enumerate(grids)]
    sizes = st.lists(st.integers(0, (1 << 62)), min_size=9, max_size=9)
    launches = draw(
        st.lists(st.tuples(st.integers(0, len(kernels) - 1), U64, sizes, U32, NAME), max_size=5)
    )
    for i, (k, tsc, size, thread, reason) in enumerate(launches):
        records += [traces.launch(i, k, tsc, sizes=size, thread=thread, reason=reason)]
        records += [traces.launch_grid(i, k)]
    completes = draw(
        st.lists(st.tuples(U32.filter(lambda n: n < 2**32 - 1), U64, U64, U64), max_size=3)
    )
    records += [traces.complete(*row) for row in completes]
    path = tmp_path_factory.mktemp("events") / "events.xpt"
    traces.write_stream(path, EVENTS, records, draw(st.booleans()))

    stream = read_stream(path, EVENTS)
    assert [row.tobytes() for row in stream["programs"]["hash"]] == hashes
    assert stream.texts(stream["kernels"]["name"]) == [name for _, name, _, _ in kernels]
    assert stream.texts(stream["kernels"]["reason"]) == [reason for *_, reason in kernels]
    assert stream["gpu_blocks"]["instructions"].tolist() == [b for k in kernels for b in k[2]]
    assert stream["gpu_blocks"]["mix"][:, 0].tolist() == [b for k in kernels for b in k[2]]
    assert not stream["gpu_blocks"]["mix"][:, 1:].any()
    ordinal = 0
    for program, name, blocks, _ in kernels:
        text = name.encode()
        for b in range(len(blocks)):
            expected = lib.xp_identity_gpu(hashes[program], text, len(text), b)
            assert int(stream["gpu_blocks"]["identity"][ordinal]) == expected
            ordinal += 1
    expected_pairs = [(int(first[k]) + b, n) for k, vector in found for b, n in vector]
    assert _pairs(stream, "vector_block", "vector_count") == expected_pairs
    assert _pairs(stream, "run_vector", "run_length") == [run for g in grids for run in g[2]]
    assert stream["grids"][["kernel", "warps", "instructions"]].tolist() == [
        (k, warps, total) for k, warps, _, total in grids
    ]
    rows = stream["launches"]
    assert rows["launch"].tolist() == list(range(len(launches)))
    assert np.hstack([rows["global"], rows["local"], rows["offset"]]).tolist() == [
        size for _, _, size, _, _ in launches
    ]
    assert rows[["kernel", "tsc_run", "thread"]].tolist() == [
        (k, tsc, thread) for k, tsc, _, thread, _ in launches
    ]
    assert stream.texts(rows["reason"]) == [reason for *_, reason in launches]
    assert rows["flags"].tolist() == [int(not reason) for *_, reason in launches]
    assert stream["launch_grids"].tolist() == [(i, k) for i, (k, *_) in enumerate(launches)]
    assert stream["completes"].tolist() == completes


def _pairs(stream: Stream, a: str, b: str) -> list[tuple[int, int]]:
    return list(zip(stream[a].tolist(), stream[b].tolist(), strict=True))


# ---- damage --------------------------------------------------------------------------------------

MADE_UP = {EVENTS: traces.events(), CPU: traces.cpu()}


def _is_prefix(part: Stream, whole: Stream) -> bool:
    """Every table of `part` is a prefix of that in `whole`: nothing was invented."""
    return all(
        rows.tobytes() == whole[name][: len(rows)].tobytes() for name, rows in part.rows.items()
    )


@pytest.mark.parametrize("stream", [EVENTS, CPU])
@pytest.mark.parametrize("closed", [True, False])
def test_truncation_at_every_byte(tmp_path: Path, stream: int, closed: bool) -> None:
    """A truncated file is refused or gives less, never anything else, and is never complete."""
    path = traces.write_stream(tmp_path / "whole", stream, MADE_UP[stream], closed)
    whole, data = read_stream(path, stream), path.read_bytes()
    used = len(data.rstrip(b"\0")) + 48
    cut_file, refused = tmp_path / "cut", 0
    for size in range(min(used, len(data))):
        cut_file.write_bytes(data[:size])
        try:
            part = read_stream(cut_file, stream)
        except StreamError:
            refused += 1
            continue
        assert _is_prefix(part, whole)
        lost = any(len(part[name]) < len(rows) for name, rows in whole.rows.items())
        assert not (lost and part.ended)
    assert refused > used // 2


@pytest.mark.slow
@pytest.mark.parametrize("stream", [EVENTS, CPU])
def test_every_flipped_bit_is_seen_or_harmless(tmp_path: Path, stream: int) -> None:
    """In sealed chunks a flipped bit is an error, unless it lies in unread bytes."""
    path = traces.write_stream(tmp_path / "whole", stream, MADE_UP[stream])
    whole, data = read_stream(path, stream), path.read_bytes()
    flipped, unseen = tmp_path / "flipped", 0
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        flipped.write_bytes(damaged)
        try:
            part = read_stream(flipped, stream)
        except StreamError:
            continue
        assert _same(part, whole)
        unseen += 1
    chunks = whole.chunks
    assert unseen <= chunks * 8 * (16 + 7)  # slice range of a header, padding after a payload


def _same(a: Stream, b: Stream) -> bool:
    return a.ended == b.ended and all(
        rows.tobytes() == b[name].tobytes() for name, rows in a.rows.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("stream", [EVENTS, CPU])
def test_flipped_bits_of_an_open_chunk_never_crash(tmp_path: Path, stream: int) -> None:
    """Without a checksum a flip may pass as data; reading stays safe."""
    path = traces.write_stream(tmp_path / "whole", stream, MADE_UP[stream], closed=False)
    data = path.read_bytes()
    used = len(data.rstrip(b"\0"))
    flipped = tmp_path / "flipped"
    for bit in range(8 * used):
        damaged = bytearray(data[: used + 64])
        damaged[bit // 8] ^= 1 << bit % 8
        flipped.write_bytes(damaged)
        try:
            read_stream(flipped, stream)
        except StreamError as error:
            assert str(flipped) in str(error)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([EVENTS, CPU]))
def test_any_payload_is_safe(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, stream: int
) -> None:
    """A well-formed chunk around any payload."""
    path = tmp_path_factory.getbasetemp() / "any.xpt"
    path.write_bytes(chunk(payload, stream))
    try:
        result: Any = read_stream(path, stream)
    except StreamError as error:
        result = str(error)
    assert result


def test_a_file_that_changed_since_it_was_read_is_checked_again(tmp_path: Path) -> None:
    """GIVEN a stream that was read when it had long ended, so that its count is known WHEN a byte
    of it changes, its size not THEN the checksum is compared again."""
    path = traces.write_stream(tmp_path / "cpu.xpt", CPU, MADE_UP[CPU])
    time.sleep(0.3)
    first = read_stream(path, CPU)
    assert np.array_equal(read_stream(path, CPU)["bbvs"], first["bbvs"])
    data = bytearray(path.read_bytes())
    data[45] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(StreamError, match="the checksum"):
        read_stream(path, CPU)


def test_checksum_error_names_file_and_place(tmp_path: Path) -> None:
    path = traces.write_stream(tmp_path / "cpu.xpt", CPU, MADE_UP[CPU])
    data = bytearray(path.read_bytes())
    data[45] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(StreamError, match=r"cpu\.xpt is damaged at byte 0: the checksum") as caught:
        read_stream(path, CPU)
    assert caught.value.violates == "crc"
    assert caught.value.offset == 0
