# SPDX-License-Identifier: Apache-2.0
"""SimPoint's files: read as SimPoint reads them, written as gem5 reads them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpuprof.errors import InputError, UsageError
from xpuprof.formats.exporters.simpoint import write_simpoints
from xpuprof.formats.frequency import read_frequency_file
from xpuprof.methods import simpoint


def gem5_reads(simpoints: Any, weights: Any) -> Any:
    """gem5's rules (configs/common/Simulation.py): both files in lockstep, each line matched from
    its start, the weights' file not shorter."""
    result = []
    with open(simpoints) as points, open(weights) as shares:
        for line in points:
            point = re.match(r"(\d+)\s+(\d+)", line)
            assert point, "unrecognized line in simpoint file!"
            line = shares.readline()
            assert line, "not enough lines in simpoint weight file!"
            share = re.match(r"([0-9\.e\-]+)\s+(\d+)", line)
            assert share, "unrecognized line in simpoint weight file!"
            assert point[2] == share[2]
            result.append((int(point[1]), float(share[1])))
        assert not shares.readline()
    return result


def test_reads_vectors_comments_and_spacing(tmp_path: Path) -> None:
    """T lines are rows; others are skipped; an empty vector is a row; counts may be fractions."""
    file = tmp_path / "a.bb"
    file.write_text(
        "# text\nT:1:10 :2:20 \nT\n\nM: x 1\r\nT :7:1.5\t:9:2e3   \nT:18446744073709551000:1"
    )
    vectors = read_frequency_file(file)
    assert vectors.row_start.tolist() == [0, 2, 2, 4, 5]
    assert vectors.dimension.tolist() == [1, 2, 7, 9, 18446744073709551000]
    assert vectors.value.tolist() == [10.0, 20.0, 1.5, 2000.0, 1.0]


def test_reads_gzip(tmp_path: Path) -> None:
    """The same bytes, compressed."""
    file = tmp_path / "a.bb.gz"
    file.write_bytes(gzip.compress(b"T:1:10\nT:2:5\n"))
    assert len(read_frequency_file(file)) == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("nothing here\n", "no line begins with T"),
        ("T:1:2\nT:1\n", "line 2"),
        ("T:1:2\nT:x:2\n", "line 2"),
        ("T:1:-2\n", "line 1"),
        ("T:1:nan\n", "line 1"),
        ("T1:2\n", "line 1"),
        ("T:1:2\n:1:4 :2:3\nT:2:9\n", "line 2"),
        ("T:1:2\nT:1:4\nT", "line 3"),
        ("T:99999999999999999999999:1\n", "line 1"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, text: str, named: str) -> None:
    """One sentence that names the file and the line."""
    file = tmp_path / "bad.bb"
    file.write_text(text)
    with pytest.raises(InputError, match=named) as error:
        read_frequency_file(file)
    assert str(file) in str(error.value)


def test_missing_and_truncated(tmp_path: Path) -> None:
    """Unreadable files also give an InputError."""
    with pytest.raises(InputError, match="cannot be read"):
        read_frequency_file(tmp_path / "none.bb")
    (tmp_path / "cut.bb.gz").write_bytes(gzip.compress(b"T:1:10\n" * 1000)[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_frequency_file(tmp_path / "cut.bb.gz")


@pytest.fixture()
def selection() -> Any:
    """100 slices of three kinds, 60:30:10."""
    kind = np.repeat([0, 1, 2], [60, 30, 10])
    start = np.arange(0, 201, 2, dtype=np.uint64)
    dimension = np.stack([kind * 2 + 1, kind * 2 + 2], axis=1).ravel().astype(np.uint64)
    value = np.tile([30.0, 70.0], 100)
    return simpoint.select(start, dimension, value, seed=1, dim=8)


def test_gem5_accepts_what_is_written(tmp_path: Path, selection: Any) -> None:
    """Same order, equal length, weights of 1 in all; labels of every slice."""
    chosen, distance = selection
    paths = write_simpoints(chosen, tmp_path / "t", distance)
    points = gem5_reads(paths[0], paths[1])
    assert [share for _, share in points] == [0.6, 0.3, 0.1]
    assert [slice_ for slice_, _ in points] == [r.slice for r in chosen.representatives]
    labels = [line.split() for line in paths[2].read_text().splitlines()]
    assert len(labels) == 100
    assert {tuple(line) for line in labels} == {("0", "0"), ("1", "0"), ("2", "0")}


def test_several_a_cluster_get_numbers_of_their_own(tmp_path: Path) -> None:
    """Readers of gem5 and SimPoint expect each number to name one point."""
    start = np.arange(41, dtype=np.uint64)
    chosen, distance = simpoint.select(
        start, np.repeat([1, 2], 20).astype(np.uint64), np.ones(40), seed=1, per_cluster=4
    )
    paths = write_simpoints(chosen, tmp_path / "t", distance)
    assert len(gem5_reads(paths[0], paths[1])) == 8
    numbers = [line.split()[1] for line in paths[0].read_text().splitlines()]
    assert len(set(numbers)) == 8


def test_small_weights_stay_readable(tmp_path: Path) -> None:
    """A weight of one in a million is written with a negative exponent, which gem5 takes."""
    kinds = np.ones(1_000_001, np.uint64)
    kinds[500] = 2
    chosen, _ = simpoint.select(
        np.arange(len(kinds) + 1, dtype=np.uint64), kinds, np.ones(len(kinds)), seed=1, k=2
    )
    paths = write_simpoints(chosen, tmp_path / "t")
    assert min(share for _, share in gem5_reads(paths[0], paths[1])) == pytest.approx(1e-6)


def test_nothing_is_overwritten(tmp_path: Path, selection: Any) -> None:
    """An existing file stays, and no other is written, unless forced."""
    (tmp_path / "t.labels").write_text("mine")
    with pytest.raises(UsageError, match="force=True"):
        write_simpoints(selection[0], tmp_path / "t")
    assert (tmp_path / "t.labels").read_text() == "mine"
    assert not (tmp_path / "t.simpoints").exists()
    write_simpoints(selection[0], tmp_path / "t", force=True)
    assert (tmp_path / "t.simpoints").exists()
