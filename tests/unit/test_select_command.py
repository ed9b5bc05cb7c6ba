# SPDX-License-Identifier: Apache-2.0
"""`xpuprof select` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from xpuprof.cli import cli
from xpuprof.errors import UsageError, XpuprofError
from xpuprof.selection.selection import Selection
from xpuprof.trace.run_writer import create_run
from xpuprof.workflow.frequency_file import select_frequency_file
from xpuprof.workflow.select import Places, Request, select_and_write


@pytest.fixture()
def vectors(tmp_path: Path) -> Any:
    """60 slices of three phases with a little noise."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(60):
        phase = i // 20
        counts = rng.integers(900, 1100, 5)
        lines.append("T" + " ".join(f":{5 * phase + b + 1}:{c}" for b, c in enumerate(counts)))
    file = tmp_path / "app.bb"
    file.write_text("\n".join(lines) + "\n")
    return file


def select(*arguments: Any) -> Any:
    """Output of the command; its errors are raised."""
    result = CliRunner().invoke(cli, ["select", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_frequency_file(vectors: Any, tmp_path: Path) -> None:
    """The object matches the documentation, and the files exist."""
    out = tmp_path / "OUT"
    text = select(vectors, "--maxk", 20, "--dim", 32, "--seed", 1, "-o", out, "--json")
    result = json.loads(text)
    assert result["slices"] == 60
    assert result["k"] == 3
    assert [r["multiplier"] for r in result["representatives"]] == [20.0] * 3
    assert result["bic"] == result["bic_by_k"]["3"]
    assert result["seconds"] > 0
    assert sorted(p.name for p in out.iterdir()) == [
        "app.labels", "app.simpoints", "app.weights", "selection.json",
    ]  # fmt: skip
    assert Selection.read(out / "selection.json").k == 3


@pytest.mark.parametrize("existing", ["selection.json", "app.weights"])
def test_existing_files_are_seen_before_the_work(
    vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: str
) -> None:
    """GIVEN one of the outputs WHEN selecting without --force THEN that is refused before the file
    is read, and nothing is written."""
    out = tmp_path / "OUT"
    out.mkdir()
    (out / existing).write_text("mine")
    monkeypatch.setattr("xpuprof.workflow.frequency_file.read_frequency_file", _must_not_run)
    with pytest.raises(UsageError, match=f"{existing} exists"):
        select_frequency_file(vectors, seed=1, options={}, output=out)
    assert [path.name for path in out.iterdir()] == [existing]


def test_an_existing_selection_of_a_run_is_seen_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a run with a selection WHEN selecting without --force THEN no slice is read."""
    create_run(tmp_path / "R", argv=["./app"]).finish("complete")
    (tmp_path / "R" / "selection.json").write_text("mine")
    monkeypatch.setattr("xpuprof.workflow.select.open_subject", _must_not_run)
    with pytest.raises(UsageError, match=r"selection\.json exists"):
        select_and_write(Request(), Places((tmp_path / "R",)))


def _must_not_run(*_: object, **__: object) -> None:
    raise AssertionError("the work was begun")


def test_same_command_same_bytes(vectors: Any, tmp_path: Path) -> None:
    """Two runs write the same files."""
    for name in ("a", "b"):
        select(vectors, "-o", tmp_path / name)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_simpoints_names_for_options(vectors: Any) -> None:
    """-maxK and other options under SimPoint's names."""
    result = json.loads(
        select(vectors, "--maxK", 2, "--bicThreshold", 1.0, "--numInitSeeds", 2,
               "--coveragePct", 0.5, "--json")
    )  # fmt: skip
    assert set(result["bic_by_k"]) == {"1", "2"}
    assert result["covered"] >= 0.5


def test_simpoints_own_spelling(vectors: Any, tmp_path: Path) -> None:
    """With one dash, as SimPoint has them."""
    one = json.loads(
        select(vectors, "-maxK", 4, "-dim", 8, "-bicThreshold", 0.8, "-numInitSeeds", 2,
               "-coveragePct", 0.9, "-fixedLength", "on", "--json")
    )  # fmt: skip
    two = json.loads(
        select(vectors, "--maxk", 4, "--dim", 8, "--bic-threshold", 0.8, "--restarts", 2,
               "--coverage", 0.9, "--json")
    )  # fmt: skip
    assert {**one, "seconds": 0} == {**two, "seconds": 0}


def test_slices_of_variable_length_count_by_it(tmp_path: Path) -> None:
    """With -fixedLength off weights are shares of instructions, and instructions are projected."""
    lines = [f"T:1:{100 + i % 3} :2:{900 + i % 5}" for i in range(30)]
    lines += [f"T:7:{4000 * (i + 1)}" for i in range(10)]
    file = tmp_path / "vli.bb"
    file.write_text("\n".join(lines) + "\n")
    length = np.array(
        [sum(int(pair.split(":")[1]) for pair in line[2:].split(" :")) for line in lines], float
    )
    out = tmp_path / "OUT"
    select(file, "-k", 2, "-fixedLength", "off", "-o", out)
    chosen = Selection.read(out / "selection.json")
    by_weight = {r.slice >= 30: r.weight for r in chosen.representatives}
    assert by_weight[True] == pytest.approx(length[30:].sum() / length.sum())
    assert sum(r.multiplier * length[r.slice] for r in chosen.representatives) == pytest.approx(
        length.sum()
    )
    weights = [float(line.split()[0]) for line in (out / "vli.weights").read_text().splitlines()]
    assert sum(weights) == pytest.approx(1.0)


def test_table_for_people(vectors: Any) -> None:
    """The table names slices, clusters and multipliers."""
    text = select(vectors)
    assert "60 slices, 3 clusters, 3 representatives" in text


def test_the_next_command_works(vectors: Any, tmp_path: Path) -> None:
    """GIVEN no -o, so that nothing is written, THEN the next command is the one that writes."""
    shown = CliRunner().invoke(cli, ["select", str(vectors)], catch_exceptions=False)
    assert f"next: xpuprof select {vectors} -o OUT (with the same options" in shown.stderr
    out = tmp_path / "OUT"
    shown = CliRunner().invoke(cli, ["select", str(vectors), "-o", str(out)])
    assert f"next: xpuprof export {out}/selection.json" in shown.stderr


def test_refuses_to_overwrite(vectors: Any, tmp_path: Path) -> None:
    """Existing output is replaced only with --force."""
    out = tmp_path / "OUT"
    select(vectors, "-o", out)
    with pytest.raises(UsageError, match="exists; name another path, or replace it"):
        select(vectors, "-o", out)
    select(vectors, "-o", out, "--force")


@pytest.mark.parametrize(
    "arguments",
    [("none.bb",), ("FILE", "--per-cluster", "many"), ("FILE", "-k", "0"), ("FILE", "--dim", "0"),
     ("FILE", "--target-error", "0.02"), ("FILE", "--coverage", "2"),
     ("FILE", "-k", "2", "--maxk", "5")],
)  # fmt: skip
def test_bad_arguments_are_one_sentence(vectors: Any, arguments: Any) -> None:
    """Our own error with exit code 2, no traceback."""
    with pytest.raises(XpuprofError) as error:
        select(*(vectors if a == "FILE" else a for a in arguments))
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
