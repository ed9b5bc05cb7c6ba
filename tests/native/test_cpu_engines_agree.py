# SPDX-License-Identifier: Apache-2.0
"""The CPU engines see the same blocks: identities and counts of one program under both are equal,
block by block."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.cpu_programs import build, profile, with_and_without_traces
from tests.support.probes import needs_dynamorio, needs_valgrind, require_processor
from xpuprof.engines.base import CpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind

pytestmark = [needs_valgrind, needs_dynamorio, pytest.mark.valgrind]


Counts = dict[tuple[int, int, str, int, int], int]


def of_main_thread(counts: Counts) -> Counts:
    return {key: n for key, n in counts.items() if key[1] == 0}


def over_slices(counts: Counts) -> dict[tuple[int, str, int, int], int]:
    """A thread's position after a barrier when another one launches is random."""
    result: dict[tuple[int, str, int, int], int] = {}
    for (_, *place), n in counts.items():
        thread, image, offset, instructions = place
        key = (thread, image, offset, instructions)
        result[key] = result.get(key, 0) + n
    return result


@with_and_without_traces
@pytest.mark.parametrize(
    "arguments",
    [("cpu_mix",), ("cpu_hot",), ("cpu_wakes",), ("cpu_loops", 1, 6), ("cpu_loops", 4, 6)],
)
def test_same_blocks_and_counts(
    tmp_path: Path, arguments: tuple[object, ...], dynamorio: DynamoRio
) -> None:
    """GIVEN hot code in traces, and without traces THEN (slice, thread, image, offset,
    instructions) and count are the same in the program, and the program's output is the native
    one."""
    # The first thread to call does the lazy binding.
    program = build(str(arguments[0]), "-Wl,-z,now")
    argv = [program, *arguments[1:]]
    # Libraries choose code by instruction set, and valgrind hides some.
    own = CpuOptions(main_image_only=True)
    native = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    found = []
    for engine in (Valgrind(), dynamorio):
        done = profile(engine, argv, tmp_path / engine.name, own)
        assert (done.process.stdout, done.process.returncode) == (native.stdout, native.returncode)
        assert done.only.stream.end == (len(done.only.stream["cuts"]), done.only.total())
        found.append(done.only.counts())
    assert of_main_thread(found[0]) == of_main_thread(found[1])
    assert over_slices(found[0]) == over_slices(found[1])
    assert len(found[0]) > 20


def test_same_identities(tmp_path: Path) -> None:
    """THEN images have the same identities, including a file without a build-id."""
    program = build("cpu_mix", "-Wl,--build-id=none")
    builds = []
    for engine in (Valgrind(), DynamoRio()):
        stream = profile(engine, [program], tmp_path / engine.name).only.stream
        images = stream["images"]
        names = [Path(path).name for path in stream.texts(images["path"])]
        builds.append(dict(zip(names, stream.texts(images["build_id"]), strict=True)))
    assert builds[0]["cpu_mix"].startswith("h")
    for name in {"cpu_mix", "libc.so.6", "ld-linux-x86-64.so.2"}:
        assert builds[0][name] == builds[1][name]


def test_repeated_string_instructions(tmp_path: Path) -> None:
    """GIVEN `rep movsb` of n bytes THEN its own block counts n times: once per iteration and once
    for the closing test, less the one that belongs to the preceding block."""
    program = build("cpu_mix")
    part = profile(DynamoRio(), [program], tmp_path / "p", CpuOptions(main_image_only=True)).only
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(program)], capture_output=True, text=True
    ).stdout
    (line,) = [line for line in listing.splitlines() if "rep movsb" in line]
    offset = int(line.split(":")[0], 16)
    counts = {key[:2]: n for key, n in part.counts().items() if key[3:] == (offset, 1)}
    rounds = [sum(n + piece for n in range(0, 50, 7)) for piece in range(3)]
    assert counts == {(piece, thread): rounds[piece] for piece in range(3) for thread in (0, 1)}


def test_wide_registers_live_across_blocks(tmp_path: Path) -> None:
    """GIVEN 32 vectors of 512 bits and 8 masks that stay in registers through a million blocks THEN
    they are unchanged, and the loop is counted exactly."""
    require_processor("avx512f")
    program = build("cpu_zmm")
    done = profile(DynamoRio(), [program], tmp_path / "p")
    assert (done.process.stdout, done.process.returncode) == ("kept\n", 0)
    assert done.only.executions(program, "zmm_even") == {(0, 0): 500_000}
    assert done.only.executions(program, "zmm_next") == {(0, 0): 500_000}


@pytest.mark.parametrize(("size", "flag"), [(32, "avx"), (64, "avx512f")])
@with_and_without_traces
def test_upper_halves_of_vectors(
    tmp_path: Path, size: int, flag: str, dynamorio: DynamoRio
) -> None:
    """GIVEN a loop of SSE arithmetic while one register's upper half is used THEN that is kept;
    while none is, THEN without traces the processor is told so, and SSE does not wait for it."""
    require_processor(flag, "xgetbv1")  # which tells the registers that are used
    program = build("cpu_uppers")
    done = profile(dynamorio, [program, size], tmp_path / "p")
    values, _, state = done.process.stdout.strip().partition(", ")
    assert (values, done.process.returncode) == ("kept", 0)
    assert state == "released"
    loop = "zmm_loop" if size == 64 else "ymm_loop"
    assert done.only.executions(program, loop) == {(0, 0): 86 * 40_000}
