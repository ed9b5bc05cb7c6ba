# SPDX-License-Identifier: Apache-2.0
"""The Pin tool's own sources around a stand-in for Pin (fake_pin/pin.H says what it does and how
each rule was seen), under ThreadSanitizer. Needs no kit."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.compile import compile_files
from tests.support.paths import ROOT
from tests.support.run import run_text
from xpuprof.trace.layout import CPU
from xpuprof.trace.streams import Stream, read_stream

HERE = Path(__file__).parent / "fake_pin"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool, the stand-in and the made-up program in one."""
    native = ROOT / "native"
    pin, common, runtime = native / "cpu" / "pin", native / "cpu" / "common", native / "runtime"
    sources = [HERE / "program.cpp", HERE / "fake_pin.cpp"]
    sources += [pin / f"{n}.cpp" for n in ("gpu_tool", "identity", "stream", "threads")]
    sources += [runtime / f"{n}.c" for n in ("writer", "stream_file", "place")]
    folders = [f"-I{f}" for f in (HERE, pin, common, runtime, native / "include")]
    target = tmp_path_factory.mktemp("pin") / "program"
    flags = ["-fsanitize=thread", "-g", "-Wno-cast-function-type", "-lstdc++", "-lpthread"]
    try:
        return compile_files(
            [*sources, common / "build_id.c"], target, *folders, *flags, compiler="gcc"
        )
    except subprocess.CalledProcessError as error:
        if "-ltsan" in str(error.stderr):
            pytest.skip("ThreadSanitizer's library is missing (Debian: libtsan2)")
        raise


@dataclass(frozen=True)
class Ran:
    """What the program said, by its first word, and the trace."""

    said: dict[str, list[list[str]]]
    stream: Stream

    def counts(self, *, by_slice: bool) -> Counter[tuple[object, int, int]]:
        """Executions by slice (or "all"), system thread and offset in the program."""
        table = self.stream
        names = table.texts(table["images"]["path"])
        found: Counter[tuple[object, int, int]] = Counter()
        for row in table["bbvs"]:
            for pair in range(int(row["first_pair"]), int(row["first_pair"] + row["n_pairs"])):
                block = table["cpu_blocks"][table["bbv_block"][pair]]
                if names[block["image"]] == "/nowhere/program":
                    thread = int(table["threads"]["system_id"][row["thread"]])
                    slice_ = int(row["slice"]) if by_slice else "all"
                    found[(slice_, thread, int(block["offset"]))] += int(table["bbv_count"][pair])
        return found

    def expected(self, *, by_slice: bool) -> Counter[tuple[object, int, int]]:
        """The same, as the program said."""
        said: Counter[tuple[object, int, int]] = Counter()
        for slice_, thread, offset, times in self.said.get("count", []):
            said[(int(slice_) if by_slice else "all", int(thread), int(offset))] += int(times)
        return said


def run(program: Path, out: Path, scenario: str, **environment: str) -> Ran:
    """Runs a scenario; a data race or a broken rule fails."""
    out.mkdir()
    settings = {**os.environ, "XPUPROF_DIR": str(out), **environment}
    settings["TSAN_OPTIONS"] = "halt_on_error=1:exitcode=66"
    done = run_text([program, "--", scenario], environment=settings)
    assert done.returncode == 0, done.stderr
    said: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines():
        word, *rest = line.split()
        said.setdefault(word, []).append(rest)
    (file,) = out.glob("*/cpu.xpt")
    return Ran(said, read_stream(file, CPU))


def assert_whole(ran: Ran, launches: int) -> None:
    """Slices are whole, and the sum of the cuts is the total of the counters."""
    cut = ran.stream["cuts"]
    assert cut["slice"].tolist() == list(range(launches + 1))
    assert ran.stream.end == (launches + 1, int(cut["instructions"].sum()))


def test_threads_that_start_launch_and_end_at_once(program: Path, tmp_path: Path) -> None:
    """GIVEN threads that start and end while others count, translate and launch THEN there is no
    data race, every slice is whole, every thread has its exact counts, and those of the device
    runtime have none."""
    ran = run(program, tmp_path / "run", "threads")
    assert ran.counts(by_slice=False) == ran.expected(by_slice=False)
    assert_whole(ran, launches=4 * 5 + 2 * 8 + 40)


def test_slices_are_exact(program: Path, tmp_path: Path) -> None:
    """GIVEN threads that wait at every launch, with calls into the device runtime and back THEN
    each slice has what each thread executed in it outside of the runtime."""
    ran = run(program, tmp_path / "run", "slices")
    assert ran.counts(by_slice=True) == ran.expected(by_slice=True)
    assert_whole(ran, launches=6)


def test_a_late_thread_belongs_to_the_one_that_created_it_then(
    program: Path, tmp_path: Path
) -> None:
    """GIVEN threads that start after their creators went on THEN what the creator did at the time
    decides: inside the device runtime, not counted; numbers follow the order of creation."""
    ran = run(program, tmp_path / "run", "late")
    assert ran.counts(by_slice=False) == ran.expected(by_slice=False)
    assert ran.stream["threads"]["system_id"].tolist() == [1000, 1002, 1003]


def test_a_cut_reads_what_ran(program: Path, tmp_path: Path) -> None:
    """GIVEN many blocks of which few ran since the last launch THEN the cut reads their groups
    alone: a count that nobody marked waits for the next mark of its group."""
    ran = run(program, tmp_path / "run", "marks")
    found = {key: n for key, n in ran.counts(by_slice=True).items() if key[0] != 0}
    assert found == ran.expected(by_slice=True)


def test_stamps_are_of_the_runs_clock(program: Path, tmp_path: Path) -> None:
    """GIVEN each of the two clocks THEN a cut's stamp lies between readings of that clock."""
    for clock, first in (("tsc", 0), ("monotonic_raw", 2)):
        ran = run(program, tmp_path / clock, "stamps", XPUPROF_CLOCK=clock)
        stamps = ran.stream["cuts"]["tsc"].tolist()
        for line, stamp in zip(ran.said["stamp"], stamps, strict=False):
            before, after = int(line[first]), int(line[first + 1])
            assert before <= stamp <= after


def test_code_that_replaces_other_code_is_its_own(program: Path, tmp_path: Path) -> None:
    """GIVEN a library unloaded and another at its addresses, a driver's code and generated code
    THEN each has blocks of its own, the driver none."""
    stream = run(program, tmp_path / "run", "code").stream
    names = stream.texts(stream["images"]["path"])
    images = stream["cpu_blocks"]["image"][stream["bbv_block"]]
    executed = dict(zip(np.array(names)[images], stream["bbv_count"].tolist(), strict=True))
    assert executed == {"/nowhere/libfirst.so": 1, "/nowhere/libsecond.so": 1, "": 2}


def test_a_forked_child_goes_on(program: Path, tmp_path: Path) -> None:
    """GIVEN a fork while another thread holds the tool's lock THEN the child neither hangs nor
    writes, and the parent's counts are whole."""
    ran = run(program, tmp_path / "run", "fork")
    assert ran.said["child"] == [["0"]]
    assert ran.counts(by_slice=False) == ran.expected(by_slice=False)
