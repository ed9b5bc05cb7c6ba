# SPDX-License-Identifier: Apache-2.0
"""Programs that launch the same kernels as often in each run, but in another order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support import traces
from xpuprof.trace.device_times import device_times
from xpuprof.trace.processes import job_of
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.native_times import NativeTimes, different_sequences, native_times
from xpuprof.validation.timed import from_executions
from xpuprof.workflow.repeats import _first_counts

TICKS = {"a": 100, "b": 900}
Launch = tuple[str, int, int]
"""Kernel, grid and thread."""


def launches(kernels: str, grid: int = 64, thread: int = 1) -> list[Launch]:
    return [(kernel, grid, thread) for kernel in kernels]


def events(made: Sequence[Launch], kernels: str = "ab") -> list[traces.Record]:
    """`kernels`: in the order of their numbers."""
    records = [traces.stamp(0, traces.START), traces.program(0)]
    records += [traces.kernel(number, 0, name, [1]) for number, name in enumerate(kernels)]
    tsc = traces.START
    for number, (kernel, grid, thread) in enumerate(made):
        tsc += TICKS[kernel]
        sizes = (grid, 1, 1, 32, 1, 1, 0, 0, 0)
        records += [
            traces.launch(number, kernels.index(kernel), tsc, sizes=sizes, thread=thread, flags=0),
            traces.complete(number, tsc),
            traces.SEAL,
        ]
    return [*records, traces.end(len(made), len(made))]


def recorded(folder: Path, **executions: list[traces.Record]) -> Run:
    writer = create_run(folder, argv=["./app"])
    for name, own in executions.items():
        role = name.rstrip("0123456789")
        traces.add_execution(writer, name, role, own, None, tsc_end=1_000_000)
    writer.finish("complete", "")
    return Run.open(folder)


def timed(
    folder: Path, profiled: list[traces.Record], native: list[traces.Record]
) -> tuple[NativeTimes, list[str]]:
    """The native run's times, and what is said of them."""
    run = recorded(folder, profile=profiled, time=native)
    assert run.profile is not None
    (found,) = native_times(job_of(run.profile), run.times)
    return found, different_sequences([found.mismatch])


def test_another_order_is_aligned_and_named(tmp_path: Path) -> None:
    """GIVEN `a b a b ...` in the profile and `a ... a b ... b` natively THEN the slices that match
    in order share the native time, and the first difference is named."""
    one, other = launches("ab" * 50), launches("a" * 50 + "b" * 50)
    found, said = timed(tmp_path / "run", events(one), events(other))
    assert found.times is not None and found.mismatch is not None
    assert np.count_nonzero(found.times) == found.mismatch.matched < 60
    assert found.times.sum() == pytest.approx(job_of(found.execution).times().sum())
    assert "(slice 1: kernel b and kernel a), so only" in said[0]


@pytest.mark.parametrize(("native", "start"), [("bab", 900), ("aabab", 100)])
def test_start_up_keeps_its_time(tmp_path: Path, native: str, start: int) -> None:
    """GIVEN a native run that launches one kernel fewer, or more, at its beginning THEN the time of
    its first slice is start-up's."""
    found, said = timed(tmp_path / "run", events(launches("abab")), events(launches(native)))
    assert found.times is not None and said
    hz = found.execution.record.tsc_hz
    assert found.times[0] * hz == pytest.approx(start)
    assert found.times.sum() == pytest.approx(job_of(found.execution).times().sum())


def test_swapped_grids_are_named(tmp_path: Path) -> None:
    """GIVEN one kernel whose grids are swapped natively THEN the first difference is named."""
    small, large = launches("a" * 10, 64), launches("a" * 10, 128)
    _, said = timed(tmp_path / "run", events(small + large), events(large + small))
    assert "slice 0: kernel a with the grids 64 x 1 x 1 and 128 x 1 x 1" in said[0]


@pytest.mark.parametrize("kernels", ["ab", "ba"])
def test_numbers_of_kernels_do_not_matter(tmp_path: Path, kernels: str) -> None:
    """GIVEN one order WHEN kernels are numbered alike or not THEN nothing is said."""
    same = launches("abb" * 9)
    found, said = timed(tmp_path / "run", events(same), events(same, kernels))
    assert (found.mismatch, said) == (None, [])


def test_threads_that_take_other_turns_launch_the_same(tmp_path: Path) -> None:
    """GIVEN two threads, one launching `a` and one `b`, and few other turns THEN nothing is said,
    and slices are not aligned."""
    one = [*launches("ab" * 200), *launches("b", thread=2), *launches("a")]
    other = [*launches("ab" * 200), *launches("a"), *launches("b", thread=2)]
    found, said = timed(tmp_path / "run", events(one), events(other))
    assert found.times is not None and not said
    assert np.count_nonzero(found.times) == len(one) + 1


def test_another_order_behind_few_other_turns_is_named(tmp_path: Path) -> None:
    """GIVEN another order of one thread's kernels, and few other turns, THEN it is named."""
    one = [*launches("ab" * 200), *launches("b", thread=2), *launches("a")]
    other = [*launches("a" * 200 + "b" * 200), *launches("a"), *launches("b", thread=2)]
    _, said = timed(tmp_path / "run", events(one), events(other))
    assert "slice 1: kernel b and kernel a" in said[0]


@pytest.mark.parametrize(("order", "counts"), [("ab" * 9, True), ("a" * 9 + "b" * 9, False)])
def test_a_first_run_with_another_order_does_not_count(
    tmp_path: Path, order: str, counts: bool
) -> None:
    """GIVEN two timer runs alike THEN the user's execution counts if it launched in their order."""
    native = events(launches("ab" * 9))
    run = recorded(tmp_path / "run", first=events(launches(order)), time0=native, time1=native)
    written: list[str] = []
    writer = SimpleNamespace(opened=lambda: run, amend=lambda name, _: written.append(name))
    ready = cast(Any, SimpleNamespace(writer=writer))
    assert _first_counts(ready) is counts
    assert written == ["first"] * counts


def test_a_run_that_was_cut_short_says_so(tmp_path: Path) -> None:
    """GIVEN a timer run that a signal ended before its first launch THEN that is why it is left
    out."""
    writer = create_run(tmp_path / "run", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", events(launches("ab")), None)
    stopped = {"status": "partial", "reason": "the program was ended by SIGINT"}
    traces.add_execution(writer, "time", "time", events([])[:-1], None, **stopped)
    writer.finish("partial", "")
    run = Run.open(tmp_path / "run")
    assert run.profile is not None
    (found,) = native_times(job_of(run.profile), run.times)
    assert found.left_out == "time is left out: the program was ended by SIGINT"


def on_device(ticks: Sequence[int]) -> list[traces.Record]:
    """Launches of kernel `a` that take these ticks on the device."""
    at = traces.START
    return [
        *events(launches("a" * len(ticks)))[:-1],
        *(traces.complete(n, at, at, at + own) for n, own in enumerate(ticks)),
        traces.end(len(ticks), len(ticks)),
    ]


def test_device_times_are_medians_as_slice_times_are(tmp_path: Path) -> None:
    """GIVEN three timer runs, the first one slow, and one that was cut short THEN the kernel's
    device time is the median of the three."""
    writer = create_run(tmp_path / "run", argv=["./app"])
    traces.add_execution(writer, "first", "first", on_device([5, 5]), None)
    cut = {"status": "partial", "reason": "the program was ended by SIGINT"}
    for i, ticks in enumerate([[900, 90], [70, 40], [60, 30], [1]]):
        ended = cut if len(ticks) == 1 else {}
        traces.add_execution(writer, f"time-{i}", "time", on_device(ticks), None, **ended)
    writer.finish("partial", "")
    run = Run.open(tmp_path / "run")
    found = device_times(run.executions)
    assert found is not None and found.native
    assert found.seconds["a"] * run.tsc_hz == pytest.approx(110)


def by_threads(threads: Sequence[int]) -> list[Launch]:
    return [("a", 64, thread) for thread in threads]


def test_a_pool_of_threads_launches_the_same(tmp_path: Path) -> None:
    """GIVEN launches in one order, of which another thread makes one, or the threads' own in turns
    THEN the runs launched alike; other kernels or another order of one thread are not alike."""
    whole, other = by_threads([1, 2, 1, 2, 2, 1, 2, 1]), by_threads([1, 2, 1, 1, 2, 1, 2, 1])
    turns = [("a", 64, 1), ("b", 64, 2), ("a", 64, 1)]
    made = [whole, other, turns, [turns[0], turns[2], turns[1]], launches("aba"), launches("aab")]
    names = [f"time{number}" for number in range(len(made))]
    run = recorded(tmp_path / "run", **dict(zip(names, map(events, made), strict=True)))
    jobs = [job_of(execution) for execution in run.times]
    alike = [one.launched_like(two) for one, two in zip(jobs[::2], jobs[1::2], strict=True)]
    assert alike == [True, True, False]


def test_threads_in_other_turns_are_said_to_be_threads(tmp_path: Path) -> None:
    """GIVEN two runs whose threads took turns otherwise THEN their times are not averaged, and the
    sentence speaks of threads."""
    one = [("a", 64, 1), ("b", 64, 2)] * 10
    other = [("b", 64, 2), ("a", 64, 1)] * 10
    run = recorded(tmp_path / "run", time0=events(one), time1=events(other))
    found = from_executions("run", run.times)
    assert len(found.times) == 1 and "threads of the program launch" in found.doubts[0]


def test_the_first_difference_is_none_of_hashes_that_they_do_not_share(tmp_path: Path) -> None:
    """GIVEN a profile whose device programs have other hashes WHEN the order differs later THEN the
    place where it does is named."""
    profiled = events(launches("ab" * 10 + "ab"))
    profiled[1] = traces.program(0, hash=b"\1" * 16)
    _, said = timed(tmp_path / "run", profiled, events(launches("ab" * 10 + "ba")))
    assert "(slice 20: kernel a and kernel b)" in said[0]
