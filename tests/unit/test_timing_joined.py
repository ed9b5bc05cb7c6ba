# SPDX-License-Identifier: Apache-2.0
"""Times from run directories other than the profile's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from xpuprof.errors import InputError
from xpuprof.trace.joined_times import Profiled, join, profiled
from xpuprof.trace.run import Run
from xpuprof.workflow.subjects import profiled_job


def timed(path: Path, rank: int | None = None, launches: int = 3, later: int = 0) -> Path:
    """A timer run of the made-up program, or of more launches of it."""
    records = traces.events(launches)
    if rank is not None:
        records = [traces.meta("rank", str(rank)), *records]
    traces.write_run(path, records, None, role="time", tsc_end=traces.END + later)
    return path


def wanted(path: Path, ranks: int = 0) -> Profiled:
    """The made-up program's profile; for several ranks, as if each had been profiled alone."""
    run = traces.write_run(path, traces.events(), traces.cpu())
    assert isinstance(run, Path)
    opened = Run.open(run)
    found = profiled(opened, profiled_job(opened))
    if not ranks:
        return found
    (key,) = found.keys
    keys = tuple(type(key)(f"rank{i}", i, key.digest, key.slices) for i in range(ranks))
    return Profiled(found.name, keys, found.window, found.arguments, found.host)


def test_folders_are_repeats_of_one_program(tmp_path: Path) -> None:
    """GIVEN two timer runs of one process THEN they are its repeats, each adding up to its
    total."""
    first, second = timed(tmp_path / "a"), timed(tmp_path / "b", later=50_000)
    found = join(wanted(tmp_path / "p"), [first, second])
    assert found.times.shape == (2, 4) and len(found.runs) == 2
    hz = found.runs[0].record.tsc_hz
    assert found.times.sum(axis=1) * hz == pytest.approx([99_000, 149_000])
    assert found.doubts == ()


def test_ranks_are_found_by_their_number(tmp_path: Path) -> None:
    """GIVEN a timer run of each rank, in any order THEN times come in the order of the profile."""
    folders = [timed(tmp_path / "t1", 1, later=50_000), timed(tmp_path / "t0", 0)]
    found = join(wanted(tmp_path / "p", ranks=2), folders)
    assert found.times.shape == (1, 8)
    ticks = found.times[0] * found.runs[0].record.tsc_hz
    assert np.array([ticks[:4].sum(), ticks[4:].sum()]) == pytest.approx([99_000, 149_000])


@pytest.mark.parametrize(
    ("make", "ranks", "sentence"),
    [
        (lambda p: timed(p, launches=4), 0, "a different kernel sequence"),
        (lambda p: timed(p, rank=0), 2, "no timer run of rank1"),
        (lambda p: timed(p, rank=5), 2, "which is not in"),
        (lambda p: traces.write_run(p, traces.events(), None), 0, "holds no timer run"),
        (
            lambda p: traces.write_run(
                p,
                [traces.meta("window", "1-2"), traces.window(0, True, 1500), *traces.events()],
                None,
                role="time",
            ),
            0,
            "time the same part",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, make: object, ranks: int, sentence: str
) -> None:
    """GIVEN times of another program, rank or window THEN one sentence says which."""
    make(tmp_path / "t")  # type: ignore[operator]
    with pytest.raises(InputError, match=sentence):
        join(wanted(tmp_path / "p", ranks), [tmp_path / "t"])
