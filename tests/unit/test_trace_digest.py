# SPDX-License-Identifier: Apache-2.0
"""A digest has the sums of the tables, in memory that grows little with the run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from tests.support.long_runs import COMMAND, peak_memory, write_long_run, write_long_selection
from xpuprof.errors import TraceError
from xpuprof.trace.reader import read_process
from xpuprof.trace.sums import CpuLines, DeviceAccesses, KernelSums, added
from xpuprof.trace.tables import Process

EVENTS = {
    "ended": traces.events(5),
    "two counts late": traces.events(5, late=2),
    "cut short": traces.events(5)[:-4],
    "head alone": traces.events(5)[:6],
    "uncounted": [
        *(record for record in traces.events(5)[:-1] if record != traces.launch_grid(3, 1)),
        traces.uncounted(3, "it ended with an error"),
        traces.end(5, 5),
    ],
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
        check_against(read_process(part, role, complete))
    except TraceError as error:
        assert "slices where the launches make" in str(error)


def check_against(process: Process) -> None:
    """Compares every sum with the tables."""
    found, launches, slices = process.sums, process.launches, process.slices
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
        own = KernelSums(1, int(row["instrumented"]), row["warps"], row["gpu_instructions"])
        expected[row["kernel"]] = added(expected.get(row["kernel"]), own)
    expected.pop("xpuprof_window_end", None)
    assert found.kernels == expected
    assert (found.of_slices >= found.slices) and (found.of_launches >= found.launches)
    if process.window is None:
        assert (found.of_slices, found.of_launches) == (found.slices, found.launches)
    else:
        assert [len(process.window.wanted), found.openings] == [found.of_slices, 1]
    assert found.gpu_blocks == (0 if process.gpu is None else len(process.gpu.mix))
    assert found.grids == (0 if process.gpu is None else len(process.gpu.grid_start) - 1)
    lines, device = process.distances, process.device_distances
    assert found.cpu_lines == (
        None if lines is None else CpuLines(lines.count.sum(), lines.count[:, -1].sum())
    )
    assert found.device == (
        None
        if device is None
        else DeviceAccesses(
            launches=len(device.launch),
            in_part=(device.recorded < device.accesses).sum(),
            accesses=device.accesses.sum(),
            recorded=device.recorded.sum(),
            lines=device.count.sum(),
            cold=device.count[:, -1].sum(),
            beyond=device.beyond.sum(),
            forgot=device.forgot.sum(),
        )
    )


def test_reasons_are_counted_and_stored_once(tmp_path: Path) -> None:
    """Equal reasons of uninstrumented launches are one text per chunk."""
    why = ["too large", "too large", "", "no binary", "too large"]
    records = [traces.program(0), traces.kernel(0, 0, "k", [3])]
    records += [traces.launch(i, 0, 10 + i, reason=text) for i, text in enumerate(why)]
    part = traces.write_process(tmp_path / "h-77", [*records, traces.end(5, 0)], None)
    process = read_process(part, "profile", True)
    assert process.sums.reasons == {"": 1, "too large": 3, "no binary": 1}
    assert process.launches["reason"].tolist() == why


FUNCTIONS = "import sys; from pathlib import Path; from xpuprof.trace.run import Run;"
FUNCTIONS += "run = Run.open(Path(sys.argv[1]));"
WORK = {
    "info": COMMAND,
    "check": COMMAND,
    "report": COMMAND,
    "time": FUNCTIONS + "from xpuprof.trace.processes import job_of;"
    "print([len(job_of(execution).times()) for execution in run.times][0])",
}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [True, False], ids=["cpu", "device"])
@pytest.mark.parametrize(
    ("work", "roles"),
    [
        (["info"], ["profile"]),
        (["info"], ["time"]),
        (["check"], ["profile"]),
        (["check"], ["time"]),
        (["time"], ["time", "time"]),
        (["report"], ["profile", "time", "time", "time"]),
        (["report", "--json"], ["profile", *["time"] * 5]),
    ],
    ids=lambda value: f"{value[0]}-{len(value)}",
)
def test_memory_a_launch(tmp_path: Path, work: list[str], roles: list[str], cpu: bool) -> None:
    """Between runs of 100,000 and 1,000,000 launches peak memory grows by 16 bytes a launch."""
    peaks = []
    for launches in (100_000, 1_000_000):
        run = write_long_run(tmp_path / str(launches), launches, roles, cpu=cpu)
        write_long_selection(run / "selection.json", launches)
        arguments = [run] if work == ["time"] else [work[0], run, *work[1:]]
        words, peak = peak_memory(WORK[work[0]], *arguments)
        assert f"{launches + 1}" in {word.replace(",", "") for word in words}
        peaks.append(peak)
    # Rounding by the allocator, and one huge page; another 4 bytes a launch would be 3.6 MB.
    assert np.diff(peaks)[0] <= 16 * 900_000 + (3 << 20)
