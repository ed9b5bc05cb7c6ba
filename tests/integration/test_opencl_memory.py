# SPDX-License-Identifier: Apache-2.0
"""LRU stack distances of device accesses against an independent model of the canonical order
(docs/memory.md) and a stack searched from its top."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.integration.programs import access_patterns as patterns
from tests.integration.test_opencl_layer import sub_group_of
from tests.support.layered import Ran, layered, run
from tests.support.paths import OPENCL_PROGRAMS as PROGRAMS
from xpuprof.trace.tables import DeviceDistances

COLD, BUCKETS, WARP, LINE = 63, 64, 32, 64
Access = tuple[str, int, int]  # buffer, offset, bytes


def texel(item: tuple[int, ...], size: tuple[int, ...]) -> int:
    """Offset of a 16-byte texel in an image with one texel per work-item, row by row."""
    return int(np.ravel_multi_index(item[::-1], size[::-1])) * 16


def accesses(kernel: str, buffers: str, size: tuple[int, ...], item: tuple[int, ...],
             local: tuple[int, ...]) -> list[Access]:  # fmt: skip
    """The accesses of one work-item, in order."""
    i = item[0]

    def at(argument: int, offset: int, width: int = 4) -> Access:
        buffer = buffers[argument]
        return ("A", patterns.PART_OF_A + offset, width) if buffer == "D" else (
            buffer, offset, width)  # fmt: skip

    match kernel:
        case "stream":
            return [at(0, 4 * i), at(1, 4 * i), at(2, 4 * i)]
        case "stencil":
            inner = 0 < i < size[0] - 1
            return [*(at(0, 4 * (i + d)) for d in (-1, 0, 1)), at(1, 4 * i)] if inner else []
        case "gather":
            return [at(0, 4 * i), at(1, 4 * int(patterns.indices()[i])), at(2, 4 * i)]
        case "reduce":
            result = [at(0, 4 * i)]
            return [*result, at(1, 4 * (i // local[0]))] if i % local[0] == 0 else result
        case "histogram":
            return [at(0, 4 * i), at(1, int(patterns.indices()[i]) % 7 * 64)]
        case "diverge":
            return [*(at(0, 4 * (100 * j + i)) for j in range(i % 13)), at(1, 4 * i)]
        case "vectors":
            return [at(0, 16 * i, 16), at(1, 20 + 12 * i, 12)]
        case "records":
            return [at(0, 24 * (i * 7 % size[0]), 24), at(1, 24 * i, 24)]
        case "tiles":
            x, y = item
            row = [at(1, 4 * (y * size[0] + x)), at(0, 4 * y), ("one_line", 0, 4)]
            return [*row, at(2, 4 * (x * size[1] + y))]
        case "walk":
            return [*(at(0, 4 * ((i * 37 + j * 11) % 2048)) for j in range(300)), at(1, 4 * i)]
        case "copies":
            group, first = divmod(i, local[0])
            read = [at(0, 4 * (100 * group + n)) for n in range(first, 100, local[0])]
            return read + [at(1, 4 * (200 * group + 3 * n)) for n in range(first, 66, local[0])]
        case "plane":
            before = texel((max(item[0] - 3, 0), item[1]), size)
            return [
                ("first", before, 16),
                *(("first", t := texel(item, size), 16), ("second", t, 16)),
            ]
        case "scaled":
            t = texel(item, size)
            return [("second", t, 16), ("second", t, 16), ("out", t, 16)]
        case "layers" | "body":
            return [(kernel, texel(item, size), 16), ("out", texel(item, size), 16)]
        case "sampled":
            return [("out", 16 * i, 16)]
    raise AssertionError(kernel)


def work_items(group: int, size: tuple[int, ...], local: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The group's work-items, x first."""
    groups = tuple(s // n for s, n in zip(size, local, strict=True))
    place = np.unravel_index(group, groups[::-1])[::-1]
    return [
        tuple(int(g) * n + i for g, n, i in zip(place, local, inner[::-1], strict=True))
        for inner in np.ndindex(local[::-1])
    ]


def warps_of(local: tuple[int, ...], sub_group: int) -> list[range]:
    """The work-items of a group's warps: 32 in order, or sub-groups cut from its rows."""
    items = int(np.prod(local))
    row, warp = (local[0], sub_group) if sub_group else (items, WARP)
    starts = [start + n for start in range(0, items, row) for n in range(0, row, warp)]
    return [range(at, min(at + warp, at // row * row + row)) for at in starts]


def touched(kernel: str, buffers: str, size: tuple[int, ...], local: tuple[int, ...],
            groups: Iterable[int], sub_group: int = 0,
            most: int | None = None) -> Iterable[tuple[str, int]]:  # fmt: skip
    """Lines in canonical order: group by group, the warps taking turns; a step is the n-th accesses
    of a warp's work-items, each line once; at most the first `most` accesses of a work-item."""
    for group in groups:
        items = [
            accesses(kernel, buffers, size, item, local)[:most]
            for item in work_items(group, size, local)
        ]
        for n in range(max(map(len, items))):
            for warp in warps_of(local, sub_group):
                step: dict[tuple[str, int], None] = {}
                for item in (items[member] for member in warp):
                    if n < len(item):
                        buffer, offset, width = item[n]
                        for line in range(offset // LINE, (offset + width - 1) // LINE + 1):
                            step[buffer, line] = None
                yield from step


class Stack:
    """An LRU stack, searched from its top."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []

    def histogram(self, lines: Iterable[tuple[str, int]]) -> npt.NDArray[np.uint64]:
        result = np.zeros(BUCKETS, np.uint64)
        for line in lines:
            bucket = COLD
            if line in self.lines:
                bucket = self.lines.index(line).bit_length()
                self.lines.remove(line)
            self.lines.insert(0, line)
            result[bucket] += np.uint64(1)
        return result


def groups_of(size: tuple[int, ...], local: tuple[int, ...]) -> int:
    return int(np.prod([s // n for s, n in zip(size, local, strict=True)]))


ON_DEVICE = {"XPUPROF_OPENCL_COUNTERS": "device"}
KEPT = pytest.mark.parametrize("kept", [{}, ON_DEVICE], ids=["shared", "on_device"])


def recorded(
    folder: Path, room: int, threads: int, kept: Mapping[str, str] | None = None
) -> tuple[Ran, Path]:
    out = folder / "out.npz"
    command = [sys.executable, PROGRAMS / "access_patterns.py", out]
    extra = {"XPUPROF_MEMORY": str(room), "POCL_MAX_PTHREAD_COUNT": str(threads)}
    return layered(command, folder / "profile", extra=extra | dict(kept or {})), out


def found_in(ran: Ran, launches: int = len(patterns.LAUNCHES)) -> DeviceDistances:
    assert ran.done.returncode == 0, ran.done.stderr.decode()
    assert ran.process.launches["instrumented"].all(), ran.process.launches["reason"].tolist()
    found = ran.process.device_distances
    assert found is not None
    assert found.launch.tolist() == list(range(launches))
    return found


def sub_groups(ran: Ran) -> list[int]:
    """Size of each launch's warps if these are sub-groups, otherwise 0."""
    return [sub_group_of(ran.process, kernel) for kernel in ran.process.launches["kernel_id"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Is every access recorded?"""
    return recorded(tmp_path_factory.mktemp("whole"), 1 << 28, 2)[0]


@pytest.fixture(scope="module")
def found(whole: Ran) -> DeviceDistances:
    return found_in(whole)


def test_every_launch_matches_the_model(whole: Ran, found: DeviceDistances) -> None:
    """GIVEN kernels with known accesses THEN every launch's vector and number of accesses match the
    naive model, whose stack persists from launch to launch."""
    stack = Stack()
    warps = sub_groups(whole)
    for row, (kernel, buffers, size, local) in enumerate(patterns.LAUNCHES):
        groups = range(groups_of(size, local))
        expected = stack.histogram(touched(kernel, buffers, size, local, groups, warps[row]))
        assert found.count[row].tolist() == expected.tolist(), (row, kernel)
        made = sum(
            len(accesses(kernel, buffers, size, item, local))
            for group in groups
            for item in work_items(group, size, local)
        )
        assert found.accesses[row] == found.recorded[row] == made, (row, kernel)
        assert found.groups[row] == found.recorded_groups[row] == len(groups)
    assert not found.beyond.any() and not found.forgot.any()


def test_same_with_any_number_of_threads(found: DeviceDistances, tmp_path: Path) -> None:
    """THEN one, two and four device threads give the same."""
    for threads in (1, 4):
        folder = tmp_path / str(threads)
        folder.mkdir()
        again = found_in(recorded(folder, 1 << 28, threads)[0])
        assert np.array_equal(again.count, found.count)


def test_same_where_the_device_has_memory_of_its_own(
    found: DeviceDistances, tmp_path: Path
) -> None:
    """THEN records copied from the device give the same as those in shared memory."""
    again = found_in(recorded(tmp_path, 1 << 26, 2, ON_DEVICE)[0])
    assert np.array_equal(again.count, found.count)
    assert np.array_equal(again.recorded, found.accesses)


@KEPT
def test_too_little_room(tmp_path: Path, kept: Mapping[str, str]) -> None:
    """GIVEN a buffer for a part of the accesses THEN evenly spaced groups are recorded or, if not
    one fits, the first accesses of the first group's work-items; the share is stated, and the
    vector matches the model."""
    ran = recorded(tmp_path, 30_000, 2, kept)[0]
    found, warps = found_in(ran), sub_groups(ran)
    stack = Stack()
    for row, (kernel, buffers, size, local) in enumerate(patterns.LAUNCHES):
        groups, whole = groups_of(size, local), int(found.recorded_groups[row])
        assert found.groups[row] == groups
        spacing = next((1 << n for n in range(20) if -(-groups >> n) == whole), 0)
        chosen = range(0, groups, spacing) if whole else range(1)
        items = work_items(0, size, local)
        made = [len(accesses(kernel, buffers, size, item, local)) for item in items]
        most = None
        if not whole:  # equally many of each work-item, in chunks of seven
            share = int(found.recorded[row])
            most = next(n for n in range(0, 700, 7) if sum(min(n, m) for m in made) >= share)
        expected = stack.histogram(touched(kernel, buffers, size, local, chosen, warps[row], most))
        assert found.count[row].tolist() == expected.tolist(), (row, kernel)
        assert (found.recorded[row] < found.accesses[row]) == (whole < groups)
    assert 0 < found.recorded_groups[0] < found.groups[0]
    (walk,) = (row for row, launch in enumerate(patterns.LAUNCHES) if launch[0] == "walk")
    assert found.recorded_groups[walk] == 0 < found.recorded[walk] < found.accesses[walk]


def test_output_is_the_native_one(tmp_path: Path) -> None:
    """THEN the program computes what it computes natively."""
    native = tmp_path / "native.npz"
    assert run([sys.executable, PROGRAMS / "access_patterns.py", native]).done.returncode == 0
    _, out = recorded(tmp_path, 1 << 28, 2)
    with np.load(native) as expected, np.load(out) as got:
        for name in expected.files:
            assert np.array_equal(expected[name], got[name]), name


def test_not_recorded_unless_asked_for(tmp_path: Path) -> None:
    """THEN an ordinary profile has no distances."""
    command = [sys.executable, PROGRAMS / "access_patterns.py", tmp_path / "out.npz"]
    assert layered(command, tmp_path / "profile").process.device_distances is None


IMAGES: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("plane", (32, 16), (8, 4)),
    ("scaled", (32, 16), (16, 2)),
]
IMAGES += [(name, (16, 8, 4), (8, 4, 2)) for name in ("layers", "body")]
IMAGES += [("sampled", (32,), (32,))]


def test_images(tmp_path: Path) -> None:
    """GIVEN kernels that read and write images THEN texels are memory, row by row; floating-point
    coordinates with a sampler argument are reported as unknown."""
    command = [sys.executable, PROGRAMS / "access_images.py"]
    ran = layered(command, tmp_path / "profile", extra={"XPUPROF_MEMORY": str(1 << 26)})
    found, warps = found_in(ran, len(IMAGES)), sub_groups(ran)
    assert ran.done.stdout.decode().split() == [name for name, *_ in IMAGES]
    stack = Stack()
    for row, (kernel, size, local) in enumerate(IMAGES):
        groups = range(groups_of(size, local))
        expected = stack.histogram(touched(kernel, "", size, local, groups, warps[row]))
        assert found.count[row].tolist() == expected.tolist(), kernel
        assert found.accesses[row] == found.recorded[row]
    assert found.beyond.tolist() == [name == "sampled" for name, *_ in IMAGES]


def test_memory_of_other_kinds(tmp_path: Path) -> None:
    """GIVEN a local size left to the runtime, a buffer at a released one's address, an asynchronous
    copy, shared virtual memory and generic pointers THEN lines are distinguished, and unrecordable
    accesses are reported."""
    command = [sys.executable, PROGRAMS / "access_kinds.py"]
    ran = layered(command, tmp_path / "profile", extra={"XPUPROF_MEMORY": str(1 << 26)})
    assert ran.done.returncode == 0, ran.done.stderr.decode()
    names = ran.done.stdout.decode().splitlines()
    found = ran.process.device_distances
    assert found is not None
    rows = {
        names[launch]: {b: int(n) for b, n in enumerate(found.count[row]) if n}
        for row, launch in enumerate(found.launch.tolist())
    }
    # 2,048 integers are 128 lines; the 127 others in between lie in bucket 7.
    expected = {
        "no local size": {COLD: 128},
        "again": {7: 128},
        "new buffer": {COLD: 128},
        # Each of a group's four lines was touched before, with 127 of this buffer and all that were
        # written since in between.
        "copy": {7: 4, 8: 124, COLD: 128},
        "SVM": {COLD: 128},
        "SVM again": {7: 128},
        # Each of a group's four lines is loaded, then stored; local memory is not recorded.
        # The buffer was touched before: since then 127 others of it, what the copy read for later
        # groups, and as many lines of shared memory.
        "generic": {8: 4, 9: 124, 2: 128} if "SVM" in rows else {7: 4, 8: 124, 2: 128},
    }
    assert rows == {name: row for name, row in expected.items() if name in rows}
    assert {"no local size", "again", "new buffer", "copy"} <= set(rows)
    beyond = dict(zip((names[n] for n in found.launch), found.beyond.tolist(), strict=True))
    assert not any(beyond.values())
    assert "nothing" not in rows
