# SPDX-License-Identifier: Apache-2.0
"""A digest has the sums of the tables, in memory that grows little with the run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from tests.support.long_runs import write_long_run
from xpuprof.errors import TraceError
from xpuprof.trace.digest import Digest, KernelSums, digest
from xpuprof.trace.reader import read_process
from xpuprof.trace.summary import memory_summary
from xpuprof.trace.tables import Process
from xpuprof.trace.window import window_facts

EVENTS = {
    "ended": traces.events(5),
    "two counts late": traces.events(5, late=2),
    "cut short": traces.events(5)[:-4],
    "head alone": traces.events(5)[:6],
    "none": None,
    "window": [
        traces.meta("window", "begin@end"),
        traces.window(0, False, 900),
        *traces.events(2)[:-1],
        traces.window(2, True, 2500),
    ],
    "accesses": [
        *traces.events(5)[:-1],
        traces.device_ldv(1, [(0, 7), (63, 2)], 20, 10, (4, 2), 1),
        traces.device_ldv(3, [(5, 1)], 3, 3, flags=2),
        traces.end(5, 5),
    ],
}
CPU = {
    "ended": traces.cpu(6),
    "short": traces.cpu(4),
    "none": None,
    "distances": [
        *traces.cpu(6)[:-1],
        traces.ldv(2, 0, [(1, 9), (63, 4)]),
        traces.ldv(5, 1, [(63, 8)]),
        traces.cpu(6)[-1],
    ],
}


def sealed(records: list[traces.Record] | None) -> list[traces.Record] | None:
    """Every record in a chunk of its own."""
    return None if records is None else [r for record in records for r in (record, traces.SEAL)]


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("complete", [True, False], ids=["complete", "partial"])
@pytest.mark.parametrize("role", ["profile", "time"])
@pytest.mark.parametrize("cpu", CPU)
@pytest.mark.parametrize("events", EVENTS)
def test_sums_of_the_tables(
    tmp_path: Path, events: str, cpu: str, role: str, complete: bool, closed: bool
) -> None:
    part = traces.write_process(tmp_path / "h-77", sealed(EVENTS[events]), sealed(CPU[cpu]), closed)
    try:
        process = read_process(part, role, complete)
    except TraceError as error:
        with pytest.raises(TraceError, match="slices where the launches make") as told:
            digest(part, role, complete)
        assert str(told.value) == str(error)
        return
    check_against(process, digest(part, role, complete))


def check_against(process: Process, found: Digest) -> None:
    """Compares every sum with the tables."""
    launches, slices = process.launches, process.slices
    assert dict(found.meta) == dict(process.meta)
    assert found.complete == process.complete
    assert (found.slices, found.launches) == (len(slices), len(launches))
    assert found.seen == launches["inside"].sum()
    assert found.instrumented == launches["instrumented"].sum()
    assert found.left_out == (launches["inside"] & launches["left_out"]).sum()
    assert found.cpu_instructions == slices["cpu_instructions"].sum()
    assert found.gpu_instructions == slices["gpu_instructions"].sum()
    assert found.warps == slices["warps"].sum()
    assert (found.threads, found.images) == (len(process.threads), len(process.images))
    expected: dict[str, KernelSums] = {}
    for row in slices.iloc[: len(launches)].to_dict("records"):
        sums = expected.setdefault(row["kernel"], KernelSums())
        sums.calls += 1
        sums.instrumented += row["instrumented"]
        sums.warps += row["warps"]
        sums.instructions += row["gpu_instructions"]
    expected.pop("xpuprof_window_end", None)
    assert found.kernels == expected
    facts = window_facts([process])
    assert (found.window, found.of_slices, found.of_launches, found.openings) == (
        ("", 0, 0, 0)
        if facts is None
        else (facts.spec, facts.of_slices, facts.of_launches, facts.openings)
    )
    assert found.gpu_blocks == (0 if process.gpu is None else len(process.gpu.mix))
    assert found.grids == (0 if process.gpu is None else len(process.gpu.grid_start) - 1)
    memory = memory_summary([process])
    lines = memory.cpu
    assert found.cpu_lines == (None if lines is None else (lines.lines, lines.cold))
    if found.device is not None:
        shown = vars(found.device).copy()
        share = shown.pop("recorded") / shown["accesses"] if shown["accesses"] else 1.0
        assert memory.device is not None
        assert asdict(memory.device) == shown | {"share": share}
    assert (memory.device is None) == (found.device is None)


def test_reasons_are_counted_and_stored_once(tmp_path: Path) -> None:
    """Equal reasons of uninstrumented launches are one text per chunk."""
    why = ["too large", "too large", "", "no binary", "too large"]
    records = [traces.program(0), traces.kernel(0, 0, "k", [3])]
    records += [traces.launch(i, 0, 10 + i, reason=text) for i, text in enumerate(why)]
    part = traces.write_process(tmp_path / "h-77", [*records, traces.end(5, 0)], None)
    assert digest(part, "profile", True).reasons == {"": 1, "too large": 3, "no binary": 1}
    process = read_process(part, "profile", True)
    assert process.launches["reason"].tolist() == why


MEASURE = """
import resource, sys
from pathlib import Path
from xpuprof.trace.run import Run
from xpuprof.trace.summary import summarize
print(summarize(Run.open(Path(sys.argv[1]))).slices)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("role", ["profile", "time"])
def test_info_takes_16_bytes_a_launch(tmp_path: Path, role: str) -> None:
    """Measured between runs of 10^5 and 10^6 launches."""
    peaks = []
    for launches in (100_000, 1_000_000):
        run = write_long_run(tmp_path / str(launches), launches, role)
        told = subprocess.check_output([sys.executable, "-c", MEASURE, run], text=True).split()
        assert int(told[0]) == launches + 1
        peaks.append(1024 * int(told[1]))
    assert np.diff(peaks)[0] <= 16 * 900_000 + (1 << 20)  # rounding by the allocator
