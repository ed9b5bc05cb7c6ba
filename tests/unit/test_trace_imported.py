# SPDX-License-Identifier: Apache-2.0
"""The reader of imported slices checks everything."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from xpuprof.errors import TraceError
from xpuprof.trace.imported import ImportedSlices, ImportWriter


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with ImportWriter(tmp_path) as writer:
        kernel = writer.codes("kernel", ["a", "b", "a"])
        writer.append({"kernel": kernel, "time": np.array([1.0, 2.0, 3.0])})
        writer.vectors("gpu", sparse.csr_matrix(np.arange(12.0).reshape(3, 4)))
    return tmp_path


@pytest.mark.parametrize("value", [None, -1, "3", 1.5, [{}], {"a": 1}, 10**30, True])
@pytest.mark.parametrize("key", ["version", "rows", "columns", "names"])
def test_a_wrong_or_missing_key_is_named(run: Path, key: str, value: Any) -> None:
    header = json.loads((run / "imported/columns.json").read_text())
    header[key] = value
    (run / "imported/columns.json").write_text(json.dumps(header))
    with pytest.raises(TraceError, match=rf"columns.json has {key} |newer xpuprof"):
        ImportedSlices(run)


@pytest.mark.parametrize("dtype", ["O", "<U9", "<f1", "|V8", "(2,)<f8", ">f8", "<M8[s]"])
def test_columns_hold_plain_numbers(run: Path, dtype: str) -> None:
    header = json.loads((run / "imported/columns.json").read_text())
    header["columns"][1]["dtype"] = dtype
    (run / "imported/columns.json").write_text(json.dumps(header))
    with pytest.raises(TraceError, match=r"columns\.json has columns "):
        ImportedSlices(run)


def test_nested_json_is_damage(run: Path) -> None:
    (run / "imported/columns.json").write_text("[" * 100_000)
    with pytest.raises(TraceError, match="import it again"):
        ImportedSlices(run)


def test_codes_are_integers(run: Path) -> None:
    header = json.loads((run / "imported/columns.json").read_text())
    header["names"]["time"] = ["a"]
    (run / "imported/columns.json").write_text(json.dumps(header))
    with pytest.raises(TraceError, match="column time is not a list of codes"):
        ImportedSlices(run).table()


def test_damaged_vectors_are_damage(run: Path) -> None:
    """After a change to any byte, the vectors are reported as damaged or unchanged."""
    file = run / "imported/gpu-vectors.npz"
    whole, rng = file.read_bytes(), random.Random(5)
    found = 0
    for _ in range(400):
        bytes_ = bytearray(whole)
        bytes_[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes_[: rng.choice([len(whole), rng.randrange(len(whole))])])
        try:
            ImportedSlices(run).vectors("gpu")
        except TraceError:
            found += 1
    assert found > 200


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_counts_are_finite(run: Path, wrong: float) -> None:
    matrix = sparse.csr_matrix(np.array([[wrong], [0.0], [1.0]]))
    sparse.save_npz(run / "imported/gpu-vectors.npz", matrix)
    with pytest.raises(TraceError, match="negative or not finite"):
        ImportedSlices(run).vectors("gpu")
