# SPDX-License-Identifier: Apache-2.0
"""The selection file: round trip, byte identity, and all faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xpuprof.errors import InputError, UsageError
from xpuprof.selection import document
from xpuprof.selection import selection as selection_module
from xpuprof.selection.design import Design, Strata
from xpuprof.selection.document import CURRENT, VERSIONS
from xpuprof.selection.identity import Identity, Image, Program, SelectedWindow
from xpuprof.selection.parts import joined, part
from xpuprof.selection.results import Allotment, RunSummary, Scores
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.trace.coordinates import Stretches
from xpuprof.trace.kinds import Key, LaunchKind, LaunchSequence

DATA = Path(__file__).parent / "data"
GOLDEN = {version: DATA / f"selection-v{version}.json" for version in VERSIONS}


def example(**changes: object) -> Selection:
    first = Marker("void f<int, 2>(float*)", 1, "ab" * 16, (64, 1, 1), (32, 1, 1))
    second = Marker('noyau_é "q"', 7, "", (128, 2, 1), (0, 0, 0))
    fields: dict[str, object] = {
        "method": "xpu-point",
        "parameters": {"seed": 1, "dims": np.int64(128), "maxk": 20, "alpha": np.float32(0.5)},
        "seed": 1,
        "representatives": (
            Representative(0, first, None, 0, 1.0, 0.1),
            Representative(3, second, first, 1, 4.25, 0.9, draws=2),
        ),
        "labels": np.array([0, 1, 1, 1, 1, -1, 0], dtype=np.int32),
        "scores": Scores(bic={1: -3.5, 2: 1e-9}),
        "identity": Identity(Program(("./app", "é"), images=(Image("/bin/app", "00ff"),))),
        "machine": {"cpu": "x"},
        "summary": RunSummary(launches=6),
    }
    fields.update(changes)
    return Selection(**fields)  # type: ignore[arg-type]


def tampered(text: str, path: str, value: object) -> str:
    """`text` with one value changed, without a new checksum unless that is the value."""
    document = json.loads(text)
    *parents, last = path.split("/")
    place = document
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(document)


def resealed(text: str, path: str, value: object) -> str:
    """As `tampered`, but with a correct checksum, as from a faulty writer."""
    from xpuprof.selection.document import _checksum

    document = json.loads(tampered(text, path, value))
    del document["checksum"]
    document["checksum"] = _checksum(document)
    return json.dumps(document)


def test_round_trip(tmp_path: Path) -> None:
    selection = example()
    selection.write(tmp_path / "s.json")
    back = Selection.read(tmp_path / "s.json")
    assert selection == back and replace(selection, seed=2) != back
    assert back.labels.tolist() == selection.labels.tolist()
    assert back.parameters["dims"] == 128
    assert back.representatives[1].start == selection.representatives[0].end


FULL = {
    "scores": Scores(3, {1: -3.5, 12: 0.25}, 0.5, 40,
                     Allotment(3, 0.5, 0.01, 2, 0.25, 0.02, 5, 0.75),
                     {"tiers": {"1": 0}, "left_out": ["warps"]}),
    "identity": Identity(
        Program(("./app", "1"), "/here", {"OMP_NUM_THREADS": "2"}, (Image("/app", "00"),), ("ab",)),
        LaunchSequence((LaunchKind("f", "ab", (2, 1, 1), (1, 1, 1), "mm"),
                        LaunchKind("SYS_exit", "", (0, 0, 0), (0, 0, 0))), ("0x6 1",)),
        (Key("rank0", 0, "00", 3), Key("process1", None, "11", 4)),
        2,
        SelectedWindow("2-8", Stretches(((1, 8),))),
        {"window": "2-8", "processes": ["a*"]},
        {"input.txt": "ff"},
        ("/times",),
        "gpu_time",
    ),
    "summary": RunSummary(7, 6, 1, 10, 20, 2.5, {"time": 1.5}, ("a", "b"), (3, 4), 0),
}  # fmt: skip
"""Every field with a value."""


def test_every_field_is_read_as_written() -> None:
    """GIVEN a selection with a value in each field THEN its file gives the same values, and keeps
    an object per field, as files of earlier releases have it."""
    selection = example(**FULL)
    back = Selection.parse(selection.text(), "s")
    assert back.text() == selection.text()
    assert [back.scores, back.identity, back.summary] == [*FULL.values()]
    stored = json.loads(selection.text())
    assert stored["scores"]["bic"] == {"1": -3.5, "12": 0.25}
    assert stored["scores"]["left_out"] == ["warps"] and stored["summary"]["time"] == 1.5
    assert stored["identity"]["window"] == {"spec": "2-8", "rows": [[1, 8]]}
    assert stored["identity"]["sequence"]["kinds"][1] == ["SYS_exit", "", [0] * 3, [0] * 3, ""]


def test_a_process_of_a_job_has_the_sequence_that_it_would_have_alone() -> None:
    """GIVEN two processes that launch the same kernels in another order THEN each part numbers its
    kinds by their own first launch, as a run of that process does."""
    kinds = tuple(LaunchKind(name, "", (1, 1, 1), (1, 1, 1)) for name in "abc")
    alone = [LaunchSequence(kinds[:2], ("0 1 0",)), LaunchSequence(kinds[::-1], ("0 1 0 2",))]
    sequence = LaunchSequence(kinds, ("0 1 0 2 1 2 0",))
    keys = tuple(Key(f"rank{i}", i, one.digest, 3 + i) for i, one in enumerate(alone))
    whole = example(identity=Identity(sequence=sequence, processes=keys))
    parts = [part(whole, number).identity for number in (0, 1)]
    assert [one.sequence for one in parts] == alone
    assert [(one.processes, one.of) for one in parts] == [((key,), 2) for key in keys]


def test_written_again_after_reading_it_is_the_same_bytes(tmp_path: Path) -> None:
    example().write(tmp_path / "a")
    Selection.read(tmp_path / "a").write(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_labels_of_a_billion_slices_are_not_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a small file that names 10^9 slices THEN it is refused before any label is made."""
    text = resealed(example().text(), "slices", 10**9)
    text = resealed(text, "labels", ["0x1000000000"])
    monkeypatch.setattr(selection_module, "decode_runs", lambda *_: pytest.fail("decoded"))
    with pytest.raises(InputError, match=r"1,000,000,000 slices.*XPUPROF_INPUT_LIMIT=4G"):
        Selection.parse(text, "s")


def test_key_order_of_the_inputs_does_not_show() -> None:
    a = example(parameters={"x": 1, "y": -0.0}, scores=Scores(own={"b": 2, "a": {"d": 1, "c": 2}}))
    b = example(parameters={"y": 0.0, "x": 1}, scores=Scores(own={"a": {"c": 2, "d": 1}, "b": 2}))
    assert a.text() == b.text()


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from tests.unit.test_selection_file import example;"
        "sys.stdout.write(example().text())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parents[2])],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert texts == {example().text().encode()}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_file_of_every_version_is_read(version: int) -> None:
    """The tests keep a file of every version; the newest equals what is written now."""
    assert Selection.read(GOLDEN[version]) == example()
    if version == CURRENT:
        assert GOLDEN[version].read_text(encoding="utf-8") == example().text()


DRAWN = Design(
    how="random",
    basis="STEM+ROOT",
    strata=Strata(size=(2, 4), draws=(1, 6), mean=(1.0, 2.5), sigma=(0.0, 0.1)),
    replacement=True,
    error_bound=0.04,
    confidence=0.95,
    quantile=2.1,
)


@pytest.mark.parametrize("design", [Design(), Design.picked("no theory"), DRAWN])
def test_every_design_is_read_as_written_also_from_version_1(design: Design) -> None:
    """GIVEN a selection with any design THEN its file gives the same design, as does a file of
    version 1, which has it among its scores."""
    selection = example(design=design)
    text = selection.text()
    assert Selection.parse(text, "s").design == design
    document = json.loads(text)
    stated = {key: value for key, value in document.pop("design").items() if key != "how"}
    if design.strata is not None:
        stated["strata"]["replacement"] = stated.pop("replacement")
    if design.how != "nearest":
        document["scores"] |= stated
    old = resealed(json.dumps(document), "version", 1)
    back = Selection.parse(old, "s")
    assert back.design == design
    assert back.scores == selection.scores
    assert back.text() == text


def test_the_strata_of_processes_are_joined_and_parted() -> None:
    """GIVEN random draws of two processes WHEN joined THEN their strata are joined, and each part
    has its own; their error bounds do not apply to the joined selection."""
    other = replace(DRAWN.strata, size=(5, 2), draws=(3, 1)) if DRAWN.strata else None
    pieces = [example(design=DRAWN), example(design=replace(DRAWN, strata=other))]
    processes = tuple(Key(f"rank{i}", i, "00", 7) for i in range(2))
    whole = replace(joined(pieces), identity=Identity(processes=processes))
    assert whole.design.strata is not None
    assert whole.design.strata.size == (2, 4, 5, 2)
    assert whole.design.replacement and whole.design.error_bound is None
    for number, piece in enumerate(pieces):
        assert part(whole, number).design.strata == piece.design.strata


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("design/how", "guessed", "unknown design 'guessed'"),
        ("design/replacement", 1, "replacement is neither true nor false"),
        ("design/strata/draws", [1], "differ in length"),
        ("design/strata/size", [2, 0], "no slice or no draw"),
        ("design/strata", None, "random draws have strata"),
        ("design/error_bound", "4 %", "error_bound is not a number"),
        ("design", {}, "lacks 'how'"),
        ("design", [], "design is not an object"),
        ("labels", ["0 2x4 -1 0"], "cluster 2 of 2 strata"),
        ("representatives/1/cluster", 7, "slice 3 represents cluster 7, which has no slice"),
    ],
)
def test_a_design_that_contradicts_itself_is_refused(path: str, value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Selection.parse(resealed(example(design=DRAWN).text(), path, value), "s")


def test_layout_is_free_content_is_not() -> None:
    text = example().text()
    assert Selection.parse(json.dumps(json.loads(text)), "s") == example()
    with pytest.raises(InputError, match=r"s was changed after it was written.*xpuprof select"):
        Selection.parse(tampered(text, "representatives/1/multiplier", 4.5), "s")


@pytest.mark.parametrize("path", ["checksum", "method", "labels/0", "identity/images/0/1"])
def test_a_change_anywhere_is_noticed(path: str) -> None:
    with pytest.raises(InputError, match="checksum"):
        Selection.parse(tampered(example().text(), path, "0"), "s")


def test_a_newer_version_is_refused_with_the_remedy() -> None:
    text = tampered(example().text(), "version", CURRENT + 1)
    with pytest.raises(InputError, match=rf"format {CURRENT + 1}.*reads up to {CURRENT}.*newer"):
        Selection.parse(text, "s")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "null", '{"format": "other"}', '{"format": 1}', "[" * 100_000],
)
def test_an_invalid_selection_file_is_named(text: str) -> None:
    with pytest.raises(InputError, match="s is not a selection file"):
        Selection.parse(text, "s")


def test_a_file_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a valid selection file that is larger than the limit THEN it is not parsed."""
    path = tmp_path / "s"
    example().write(path)
    Selection.read(path)
    monkeypatch.setattr(document, "LARGEST", path.stat().st_size - 1)
    with pytest.raises(InputError, match="larger than"):
        Selection.read(path)


@pytest.mark.parametrize("version", [None, True, 0, -1, "1", 1.0])
def test_versions_that_never_were(version: object) -> None:
    text = tampered(example().text(), "version", version)
    with pytest.raises(InputError, match="no valid format version"):
        Selection.parse(text, "s")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("labels", ["0x99999999999999"], "labels"),
        ("labels", ["0x-1 1x8"], "a run of labels has length 0"),
        ("labels", ["zero x7"], "invalid literal"),
        ("labels", 5, "not iterable"),
        ("slices", "7", "slices is not an integer"),
        ("representatives", [], "no representatives"),
        ("representatives/0/slice", 7, "slice 7 of 7"),
        ("representatives/0/slice", 3, "chosen twice"),
        ("representatives/0/multiplier", 0, "out of range"),
        ("representatives/0/multiplier", "1", "multiplier is not a number"),
        ("representatives/0/end", {"kernel": "k"}, "lacks 'call'"),
        ("representatives/0/end/grid", [1, 2], "not enough values"),
        ("covered", 0, "covered share"),
        ("scores", [], "scores is not an object"),
        ("scores", {"bic": []}, "bic is not an object"),
        ("scores", {"clusters": "2"}, "clusters is not an integer"),
        ("scores", {"allotment": {"number": 1}}, "missing 5 required"),
        ("identity/images", [["/bin/app"]], "not enough values"),
        ("identity", {"sequence": {"kinds": [], "order": 5}}, "not iterable"),
        ("identity", {"sequence": {"kinds": [["k", "", [1, 1], [1, 1, 1]]]}}, "not enough values"),
        ("identity", {"processes": [{"label": "rank0"}]}, "lacks 'rank'"),
        ("identity", {"window": "2-3"}, "window is not an object"),
        ("summary", {"launches": "6"}, "launches is not an integer"),
        ("summary", {"gpu_time": "6 s"}, "gpu_time is not a number"),
    ],
)
def test_a_faulty_writer_is_refused(path: str, value: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Selection.parse(resealed(example().text(), path, value), "s")


def test_doubled_keys_and_nan_are_refused() -> None:
    text = example().text()
    doubled = text.replace('"seed": 1,', '"seed": 1, "seed": 1,')
    assert doubled != text
    with pytest.raises(InputError, match="twice"):
        Selection.parse(doubled, "s")
    for number in ("NaN", "1e999"):
        with pytest.raises(InputError, match="not valid JSON"):
            Selection.parse(text.replace("4.25", number), "s")


def test_values_json_cannot_hold_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    for bad in (Scores(wcss=float("nan")), Scores(own={"x": object()})):
        with pytest.raises(InputError, match=r"scores\.wcss is nan|scores\.x is a object"):
            example(scores=bad).write(tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_no_overwriting_without_force(tmp_path: Path) -> None:
    target = tmp_path / "s"
    target.write_text("mine")
    with pytest.raises(UsageError, match="force=True"):
        example().write(target)
    assert target.read_text() == "mine"
    example().write(target, force=True)
    assert Selection.read(target) == example()
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_unusable_paths(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        example().write(tmp_path, force=True)
    with pytest.raises(UsageError, match="cannot write"):
        example().write(tmp_path / "none" / "s")
    with pytest.raises(InputError, match="does not exist"):
        Selection.read(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        Selection.read(tmp_path / "binary")


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(-1, 5), min_size=1, max_size=200),
    numbers=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, min_value=1e-300), min_size=1, max_size=4
    ),
    name=st.text(max_size=20),
)
def test_any_selection_survives(labels: list[int], numbers: list[float], name: str) -> None:
    covered = [i for i, label in enumerate(labels) if label >= 0]
    assume(covered)
    representatives = tuple(
        Representative(i, Marker(name, i + 1), None, labels[i], m, m)
        for i, m in zip(covered, numbers, strict=False)
    )
    selection = example(
        labels=np.array(labels, dtype=np.int32),
        representatives=representatives,
        parameters={name: numbers},
    )
    with tempfile.TemporaryDirectory() as folder:
        selection.write(Path(folder) / "s")
        back = Selection.read(Path(folder) / "s")
    assert back == selection
    assert back.labels.tolist() == labels
    assert list(back.parameters[name]) == numbers


@pytest.mark.parametrize("label", [-2, 1 << 24, 2**31 - 1])
def test_labels_out_of_range_are_refused(label: int) -> None:
    """GIVEN a label that would take gigabytes, or is negative, THEN the file is refused."""
    chosen = example()
    labels = chosen.labels.copy()
    labels[2] = label
    with pytest.raises(InputError, match="labels out of range"):
        Selection.parse(replace(chosen, labels=labels).text(), "made up")


def test_a_run_directory_stands_for_its_selection(tmp_path: Path) -> None:
    example().write(tmp_path / "selection.json")
    assert Selection.read(tmp_path) == example()
