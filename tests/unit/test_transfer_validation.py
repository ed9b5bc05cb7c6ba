# SPDX-License-Identifier: Apache-2.0
"""Selections compared with other runs: the same sequence, another one, another program."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.compile import compile_text
from tests.support.runs_made_up import made_up_run, marker, select_by_kernel
from xpuprof.engines.filters import Filters
from xpuprof.errors import InputError, MissingRegionError, UsageError
from xpuprof.estimation.projection import slice_reduction
from xpuprof.report.validation import (
    difference_lines,
    regions_text,
    transfer_json,
    transfer_text,
    validation_json,
)
from xpuprof.selection.identity import Identity, Image, Program, SelectedWindow
from xpuprof.selection.parts import joined, part
from xpuprof.selection.selection import Representative, Selection
from xpuprof.trace.coordinates import JobRow
from xpuprof.trace.elf import build_id
from xpuprof.trace.processes import keys_of_table
from xpuprof.trace.sequence import launch_sequence
from xpuprof.validation.regions import KernelSpec, named_regions, parse_spec, selected_regions
from xpuprof.validation.timed import Timed
from xpuprof.validation.transfer import hold_against
from xpuprof.validation.validate import image_differences, validate
from xpuprof.workflow.time import time

A = ["a/64", "b/64", "a/64", "b/64", "a/64"]
TIMES = [1.0, 2.0, 1.0, 2.0, 1.0, 0.5]


def test_same_run_is_projected_without_error() -> None:
    run = made_up_run(A, TIMES)
    result = validate(select_by_kernel(run), run)
    assert result.measured == pytest.approx(7.5)
    assert result.projected.value == pytest.approx(3 * 1.0 + 2 * 2.0 + 0.5)
    assert result.error == pytest.approx(0.0)
    assert slice_reduction(result.selection) == pytest.approx(6 / 3)
    assert result.differences == ()
    assert validation_json(result)["same"] is True
    assert result.unknown_effect == 0.0


def test_error_is_the_papers_formula_on_another_machine() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    other = made_up_run(A, [2.0, 2.0, 3.0, 2.0, 3.0, 0.5])
    result = validate(selection, other)
    assert result.projected.value == pytest.approx(3 * 2.0 + 2 * 2.0 + 0.5)
    assert result.error == pytest.approx(abs(1 - 10.5 / 12.5))


def test_start_up_and_exit_do_not_hide_the_rest() -> None:
    launches = ["start/1", "a/64", "a/64", "a/64", "a/64"]
    selection = select_by_kernel(made_up_run(launches))
    result = validate(selection, made_up_run(launches, [100, 1, 2, 2, 3, 100]))
    assert result.error == pytest.approx(4 / 208)
    assert result.accuracy.inner == pytest.approx(4 / 8)
    assert result.accuracy.measured == pytest.approx(201 / 208)
    assert result.accuracy.unmeasured == pytest.approx(4 / 7)
    mixed = validate(select_by_kernel(made_up_run(A, TIMES)), made_up_run(A, TIMES))
    assert mixed.accuracy.inner is None
    window = replace(selection.identity, window=SelectedWindow("3-7"))
    inside = validate(
        replace(selection, identity=window), replace(made_up_run(launches), window="3-7")
    )
    assert inside.accuracy.inner is None


def test_it_travels_in_its_file() -> None:
    selection = Selection.parse(select_by_kernel(made_up_run(A, TIMES)).text(), "s")
    assert validation_json(validate(selection, made_up_run(A, TIMES)))["same"] is True


def test_a_missing_region_is_named() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    run = made_up_run(["a/64", "a/64", "a/64"], name="B")
    with pytest.raises(MissingRegionError, match=r"1 region .* in B: kernel b, call 1; .*--allow"):
        validate(selection, run)
    assert MissingRegionError.exit_code == 3


def test_a_region_in_another_order_is_not_said_to_be_absent() -> None:
    selection = select_by_kernel(made_up_run(["a/64", "b/64", "c/64", "c/64"]))
    run = made_up_run(["c/64", "c/64", "b/64", "a/64"], name="B")
    for use in (validate, selected_regions):
        with pytest.raises(
            MissingRegionError, match="matched nothing in B, whose launches have another"
        ):
            use(selection, run)


def test_regions_of_which_some_occur_are_not_said_to_be_absent() -> None:
    """GIVEN a run that lacks one region's kernel, and has another's elsewhere in its order."""
    selection = select_by_kernel(made_up_run(["a/64", "b/64", "c/64", "c/64", "d/64"]))
    run = made_up_run(["c/64", "c/64", "b/64", "a/64"], name="B")
    said = r"[23] regions .* matched nothing in B \(1 of them never occurred; .*another order\): "
    with pytest.raises(MissingRegionError, match=said):
        validate(selection, run)


def test_allow_missing_reweights_and_states_the_share() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    run = made_up_run(["a/64", "a/64", "a/64"], name="B")
    result = validate(selection, run, allow_missing=True)
    assert [r.end.kernel for r in result.transplant.missing] == ["b"]
    lost = "left out: 1 region that no slice matched; covered share 66.67 %, the others re-weighted"
    assert lost in difference_lines(result)
    assert result.selection.covered == pytest.approx(4 / 6)
    assert sum(r.weight for r in result.selection.representatives) == pytest.approx(4 / 6)
    # a and exit stand for 4 of 6 slices of the original, and for 4 of 4 here.
    assert result.projected.value == pytest.approx(4.0 * 6 / 4)
    assert result.unknown_effect == pytest.approx(0.5)
    assert validation_json(result)["missing"] == [{"slice": 1, "kernel": "b", "call": 1}]


@pytest.mark.parametrize(("others", "slices"), [("c", 10), ("cc", 11)])
def test_unknown_slices_take_the_places_of_lost_ones(others: str, slices: int) -> None:
    """GIVEN slices of an unknown kernel where a lost one ran WHEN all take 1 s THEN each counts
    once."""
    selection = select_by_kernel(made_up_run([*["a/64"] * 8, "b/64"]))
    run = made_up_run([*["a/64"] * 8, *(f"{kernel}/64" for kernel in others)])
    result = validate(selection, run, allow_missing=True)
    moved = result.selection
    assert sum(r.multiplier for r in moved.representatives) == pytest.approx(slices)
    assert result.projected.value == pytest.approx(result.measured) == pytest.approx(slices)
    assert moved.covered == pytest.approx(9 / slices)
    assert result.unknown_effect == pytest.approx(0.0)


def test_a_lost_region_is_replaced_by_the_nearest_slice_of_its_cluster() -> None:
    launches = ["a/64", "b/1", "a/64", "b/2", "a/64", "b/3"]
    selection = select_by_kernel(made_up_run(launches))
    run = made_up_run(["a/64", "a/64", "b/2", "a/64", "b/3"], [1, 1, 5, 1, 7, 0.5], name="B")
    with pytest.raises(MissingRegionError, match="kernel b, call 1"):
        validate(selection, run)
    result = validate(selection, run, allow_missing=True)
    assert [r.end.kernel for r in result.transplant.stand_ins] == ["b"]
    replaced = "replaced: 1 region that no slice matched, by other slices of the same cluster"
    assert difference_lines(result)[-1] == replaced
    assert result.selection.covered == 1.0
    assert result.projected.value == pytest.approx(3 * 1.0 + 2 * 5.0 + 0.5)


def test_more_calls_of_a_known_kernel_count_to_its_cluster() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    run = made_up_run([*A, "a/64", "a/64"], [1, 2, 1, 2, 1, 1, 1, 0.5])
    result = validate(selection, run)
    assert result.error == pytest.approx(0.0)
    assert len(result.transplant.attributed) == 2
    assert "8 in run, 6 matched" in result.differences[0]


def test_unknown_kernels_are_reported_and_their_effect_bounded() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    launches = ["tune/8", "tune/8", *A]
    run = made_up_run(launches, [10.0, 10.0, *TIMES])
    result = validate(selection, run)
    assert result.transplant.unknown.tolist() == [0, 1]
    assert result.unknown_time == pytest.approx(20 / 27.5)
    # Known slices are projected exactly, so the error is the unknown slices' effect. The exit
    # represents itself.
    assert result.projected.value == pytest.approx(7.0 * 7 / 5 + 0.5)
    assert result.error == pytest.approx(result.unknown_effect)


def test_a_shifted_call_is_found_by_order_not_by_number() -> None:
    launches = ["a/64", "b/64", "b/32", "a/64"]
    selection = select_by_kernel(made_up_run(launches))
    reps = list(selection.representatives)
    moved = made_up_run(["b/16", "b/16", *launches], [7.0, 7.0, 1, 2, 3, 1, 1])
    result = validate(replace(selection, representatives=tuple(reps)), moved)
    row = next(r for r in result.selection.representatives if r.end.kernel == "b")
    assert (row.slice, row.end.call) == (3, 3)
    assert any("b, call 1 is b, call 3 here" in text for text in result.differences)


def test_another_grid_and_program_are_named() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    result = validate(selection, made_up_run(["a/128", *A[1:]], TIMES, program="bb"))
    text = "\n".join(result.differences)
    assert "a, call 1 has grid 128 x 1 x 1 here, not 64 x 1 x 1" in text
    assert "b, call 1 is built from a different device program here" in text
    assert validation_json(result)["same"] is False


def test_other_grids_alone_are_said_to_be_that() -> None:
    """GIVEN the same kernels in the same order, one with another grid THEN the sequence is not said
    to differ."""
    selection = select_by_kernel(made_up_run(["a/64", "b/64", "a/64"]))
    moved = validate(selection, made_up_run(["a/64", "b/128", "a/64"]))
    assert moved.differences[0] == (
        "the same kernels were launched in the same order; 1 of 4 slices have another grid or "
        "work-group"
    )
    longer = made_up_run(["a/64", "b/128", "a/64", "a/64"])
    assert "the launch sequence differs" in validate(selection, longer).differences[0]


def test_unknown_grids_are_no_difference() -> None:
    """GIVEN a run without grids, as tables import WHEN a selection from one with grids meets it, or
    the reverse THEN nothing is said to differ."""
    known, unknown = made_up_run(["a/64", "b/64", "a/64"]), made_up_run(["a", "b", "a"])
    assert validate(select_by_kernel(known), unknown).differences == ()
    assert validate(select_by_kernel(unknown), known).differences == ()


def modules(light: int, heavy: int, suffix: str = "") -> Timed:
    """Launches of `apply` from a light and a heavy module, whose hashes end with `suffix`."""
    named = made_up_run([*["light/64"] * light, *["heavy/64"] * heavy])
    modules = named.slices["kernel"].map({"light": "light" + suffix, "heavy": "heavy" + suffix})
    launches = modules.notna()
    slices = named.slices.assign(
        kernel=named.slices["kernel"].where(~launches, "apply"), program=modules.fillna("")
    )
    slices["call"] = slices.groupby("kernel").cumcount() + 1
    times = np.where(named.slices["kernel"] == "heavy", 15.0, 1.0)
    return Timed("run", slices, times[None, :])


def select_by_module(run: Timed) -> Selection:
    """The middle slice of each module's launches, and the exit."""
    slices = run.slices
    labels = np.array(pd.factorize(slices["program"])[0], np.int32)
    rows = [JobRow(int(np.median(np.flatnonzero(labels == i)))) for i in range(3)]
    sizes = np.bincount(labels)
    representatives = tuple(
        Representative(row, marker(slices, row), None, i, float(sizes[i]), sizes[i] / len(slices))
        for i, row in enumerate(rows)
    )
    identity = Identity(Program(("./app",)), launch_sequence(slices))
    return replace(
        select_by_kernel(run), representatives=representatives, labels=labels, identity=identity
    )


def test_kernels_of_one_name_are_told_apart_by_their_programs() -> None:
    """GIVEN modules that both define `apply` WHEN another run launches them more and less often
    THEN slices of one never stand for the other's."""
    selection = select_by_module(modules(60, 20))
    run = modules(20, 60)
    with pytest.raises(MissingRegionError, match="apply, call 30"):
        validate(selection, run)
    result = validate(selection, run, allow_missing=True)
    assert result.error == pytest.approx(0.0)
    assert not result.transplant.unknown.size


def test_a_program_that_one_run_lacks_is_unknown() -> None:
    """GIVEN a module that only the other run has THEN its slices are of an unknown kernel."""
    selection = select_by_kernel(modules(10, 0))
    assert len(validate(selection, modules(10, 5)).transplant.unknown) == 5


def test_programs_of_another_driver_are_matched_by_name() -> None:
    """GIVEN hashes of which none is the selection's THEN name and grid decide."""
    result = validate(select_by_module(modules(60, 20)), modules(60, 20, suffix="-b"))
    assert result.error == pytest.approx(0.0)
    assert "apply, call 30 is built from a different device program here" in result.differences


def test_another_program_is_refused() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    other = made_up_run(["x", "y"])
    other.slices["kernel"] = ["x", "y", "z"]
    with pytest.raises(InputError, match=r"made from \./app: none of its kernels ran in run"):
        validate(selection, other, allow_missing=True)


# ---- start-up and exit ---------------------------------------------------------------------------


def select_apart(run: Timed, **fields: Any) -> Selection:
    """As `select_by_kernel`, but every process's first slice is in the cluster of start-ups."""
    slices = run.slices
    owner = slices["process"] if "process" in slices else pd.Series(0, slices.index)
    apart = slices.assign(kernel=slices["kernel"].where(owner.duplicated(), "start-up"))
    chosen = select_by_kernel(replace(run, slices=apart))
    own = tuple(
        replace(r, end=marker(slices, r.slice), process=int(owner[r.slice]))
        for r in chosen.representatives
    )
    identity = Identity(Program(("./app",)), launch_sequence(slices), processes=run.keys)
    return replace(chosen, representatives=own, identity=identity, **fields)


def timed(launches: Sequence[str], name: str = "run") -> Timed:
    """A run in which start-up takes 100 s before the first kernel, the exit 50 s, and a launch as
    long as its kernel."""
    seconds = {"scale": 1.0, "stencil": 2.0, "heavy": 7.0, "init": 3.0}
    times = [seconds[launch.split("/")[0]] for launch in launches]
    return made_up_run(launches, [100 + times[0], *times[1:], 50.0], name)


def multipliers(selection: Selection) -> dict[str, float]:
    """By the kernel that ends the representative."""
    return {r.end.kernel: r.multiplier for r in selection.representatives}


LAUNCHES = ["scale/64", *["stencil/64", "scale/64", "heavy/64"] * 4]


@pytest.mark.parametrize("first", ["stencil/64", "scale/64"])
def test_start_up_is_the_first_slice_whatever_it_launches(first: str) -> None:
    """GIVEN one more launch at the beginning of the program THEN its slice is start-up, and the
    former first launch counts to its kernel."""
    result = validate(select_apart(timed(LAUNCHES)), timed([first, *LAUNCHES]))
    start = result.selection.representatives[0]
    assert (start.slice, start.multiplier, start.start) == (0, 1.0, None)
    assert result.selection.labels.tolist().count(start.cluster) == 1
    assert result.error == pytest.approx(0.0)
    other = "start-up ends with kernel stencil here, not scale, call 1"
    assert (other in result.differences) == (first == "stencil/64")
    with_it = "1 by start-up" if first == "stencil/64" else "14 by kernel and grid"
    assert with_it in result.differences[0]


def test_a_launch_fewer_at_the_beginning_leaves_start_up_in_place() -> None:
    """GIVEN a run without the first launch THEN its first slice is start-up all the same."""
    selection = select_apart(timed(LAUNCHES))
    result = validate(selection, timed(LAUNCHES[1:]), allow_missing=True)
    assert result.selection.representatives[0].slice == 0
    assert len(result.transplant.stand_ins) == 1  # of stencil's, whose first launch ends start-up
    assert multipliers(result.selection)["SYS_exit"] == 1.0
    # Start-up holds stencil's launch instead of scale's.
    assert result.projected.value == pytest.approx(102 + 3 * 2.0 + 4 * 1.0 + 4 * 7.0 + 50)
    assert result.error == pytest.approx(0.0)


def test_start_up_is_found_without_a_sequence() -> None:
    """GIVEN a selection of markers alone THEN start-up is the first slice, and a region whose
    marker now ends start-up is missing."""
    selection = replace(select_apart(timed(LAUNCHES)), identity=Identity())
    same = validate(selection, timed(LAUNCHES))
    assert same.error == pytest.approx(0.0)
    assert same.differences == ()
    result = validate(selection, timed(["scale/64", *LAUNCHES]))
    assert multipliers(result.selection)["scale"] == 5.0
    assert result.selection.representatives[0].multiplier == 1.0
    with pytest.raises(MissingRegionError, match="kernel stencil, call 1; "):
        validate(selection, timed(["stencil/64", *LAUNCHES]))


def test_a_kernel_that_only_began_the_program_is_unknown_elsewhere() -> None:
    """GIVEN a kernel that only start-up held WHEN it runs later THEN no cluster is like it."""
    selection = select_apart(timed(["init/1", *LAUNCHES]))
    result = validate(selection, timed(["scale/64", "init/1", *LAUNCHES]))
    assert result.transplant.unknown.tolist() == [1]
    assert result.unknown_effect == pytest.approx(result.error)
    assert result.error < 0.01


def test_a_profile_of_kernels_alone_has_no_start_up() -> None:
    """GIVEN an import without start-up and exit THEN its first slice is its kernel's."""

    def kernels(launches: Sequence[str], seconds: Sequence[float]) -> Timed:
        run = made_up_run(launches, [*seconds, 0.0])
        return Timed("run", run.slices.iloc[:-1], run.times[:, :-1])

    before = kernels(["init/1", "a/64", "a/64"], [9.0, 1.0, 1.0])
    after = kernels(["a/64", "init/1", "a/64", "a/64"], [1.0, 9.0, 1.0, 1.0])
    result = validate(select_by_kernel(before), after)
    assert result.error == pytest.approx(0.0)
    assert multipliers(result.selection) == {"init": 1.0, "a": 3.0}


def test_start_up_and_exit_do_not_represent_uncovered_slices() -> None:
    """GIVEN unknown slices and a lost cluster THEN only slices between start-up and exit take their
    places."""
    lost = validate(
        select_apart(timed([*LAUNCHES, "init/1"])),
        timed(LAUNCHES),
        allow_missing=True,
    )
    more = made_up_run([*LAUNCHES, "new/1", "new/1"], [101.0, *[2, 1, 7] * 4, 5, 5, 50])
    unknown = validate(select_apart(timed(LAUNCHES)), more)
    for result, number in ((lost, 15), (unknown, 16)):
        start, *inner, end = result.selection.representatives
        assert (start.multiplier, end.multiplier) == (1.0, 1.0)
        assert sum(r.multiplier for r in (start, *inner, end)) == pytest.approx(number)
        assert sum(r.weight for r in result.selection.representatives) == pytest.approx(
            result.selection.covered
        )
        assert result.error == pytest.approx(result.unknown_effect)
    assert unknown.selection.covered == pytest.approx(14 / 16)
    assert unknown.projected.value == pytest.approx(151 + 40 * 14 / 12)


def test_programs_that_share_start_up_alone_are_refused() -> None:
    """Every program has a start-up."""
    with pytest.raises(InputError, match="none of its kernels ran in run"):
        validate(select_apart(timed(LAUNCHES)), made_up_run(["x/1", "y/1"]), allow_missing=True)


def test_a_slice_unlike_all_others_represents_no_further_launch() -> None:
    """GIVEN a slice alone in its cluster WHEN its kernel is launched once more right after it THEN
    that counts to the kernel's other slices."""
    launches = ["scale/64", *["heavy/64", "stencil/64"] * 4]
    long = timed(launches)
    long.times[0, 3] = 90.0
    chosen = select_by_kernel(
        replace(
            long,
            slices=long.slices.assign(
                kernel=["lone" if n == 3 else k for n, k in enumerate(long.slices["kernel"])]
            ),
        )
    )
    own = tuple(replace(r, end=marker(long.slices, r.slice)) for r in chosen.representatives)
    identity = Identity(Program(("./app",)), launch_sequence(long.slices))
    chosen = replace(chosen, representatives=own, identity=identity)
    further = timed([*launches[:4], "heavy/64", *launches[4:]])
    further.times[0, 3] = 90.0
    assert validate(chosen, further).error == pytest.approx(0.0)


def ranks(*programs: Sequence[str]) -> Timed:
    """A job of these processes; process p takes p + 1 times as long as `timed`."""
    runs = [timed(launches) for launches in programs]
    slices = pd.concat(
        [run.slices.assign(process=place) for place, run in enumerate(runs)], ignore_index=True
    )
    times = np.concatenate([run.times[0] * (place + 1) for place, run in enumerate(runs)])
    keys = tuple(
        replace(key, label=f"rank{place}", rank=place)
        for place, key in enumerate(keys_of_table(slices))
    )
    return Timed("job", slices, times[None, :], keys=keys)


def test_every_rank_begins_with_start_up() -> None:
    """GIVEN ranks that launch one kernel more at their beginning, and a rank more THEN each first
    slice is start-up, and no other is."""
    selection = select_apart(ranks(LAUNCHES, LAUNCHES))
    more = ["stencil/64", *LAUNCHES]
    result = validate(selection, ranks(more, more, ["heavy/64", *LAUNCHES]))
    start = result.selection.representatives[0]
    labels = result.selection.labels
    assert np.flatnonzero(labels == start.cluster).tolist() == [0, 15, 30]
    assert start.multiplier == pytest.approx(3.0)
    assert multipliers(result.selection)["SYS_exit"] == pytest.approx(3.0)


def test_further_ranks_begin_like_those_of_their_program() -> None:
    """GIVEN a job of two programs WHEN it has one rank of the second more THEN its start-up is
    like that program's."""
    other = ["init/1", *LAUNCHES]
    both = ranks(LAUNCHES, other)
    selection = joined([select_apart(timed(LAUNCHES)), select_apart(timed(other))])
    identity = Identity(sequence=launch_sequence(both.slices), processes=both.keys)
    result = validate(replace(selection, identity=identity), ranks(LAUNCHES, other, other))
    started = [r.multiplier for r in result.selection.representatives if r.start is None]
    assert started == [1.0, 2.0]


# ---- several processes ---------------------------------------------------------------------------

B = ["b/64", "c/64", "b/64"]


def job(*ranks: int, name: str = "job") -> Timed:
    """Rank r runs A when r is even, else B, every slice taking r + 1 times TIMES."""
    tables, times = [], []
    for place, rank in enumerate(ranks):
        launches = B if rank % 2 else A
        tables.append(made_up_run(launches).slices.assign(process=place))
        times.append(np.array(TIMES[: len(launches) + 1]) * (rank + 1))
    slices = pd.concat(tables, ignore_index=True)
    keys = tuple(
        replace(key, label=f"rank{rank}", rank=rank)
        for rank, key in zip(ranks, keys_of_table(slices), strict=True)
    )
    return Timed(name, slices, np.concatenate(times)[None, :], keys=keys)


def selection_of(run: Timed, each: bool = False) -> Selection:
    """One cluster per kernel, over the whole job or for each process."""
    if each:
        pieces = [piece.reset_index(drop=True) for _, piece in run.slices.groupby("process")]
        chosen = joined([select_by_kernel(Timed("one", p, np.ones((1, len(p))))) for p in pieces])
    else:
        chosen = select_by_kernel(run)
        owner = run.slices["process"].tolist()
        own = tuple(replace(r, process=owner[r.slice]) for r in chosen.representatives)
        chosen = replace(chosen, representatives=own)
    identity = Identity(sequence=launch_sequence(run.slices), processes=run.keys)
    return replace(chosen, identity=identity)


@pytest.mark.parametrize("each", [False, True])
def test_ranks_are_found_in_another_order(each: bool) -> None:
    """GIVEN the same job with parts in another order THEN each rank is matched with itself."""
    here, there = job(0, 1, 2), job(2, 0, 1)
    selection = Selection.parse(selection_of(here, each).text(), "s")
    before, after = validate(selection, here), validate(selection, there)
    assert before.differences == after.differences == ()
    assert after.measured == pytest.approx(7.5 + 12.0 + 22.5)
    assert after.projected.value == pytest.approx(before.projected.value)
    assert [share.key.label for share in after.shares] == ["rank0", "rank1", "rank2"]
    assert [share.measured for share in after.shares] == pytest.approx([7.5, 12.0, 22.5])
    total = sum(share.estimate.value for share in after.shares)
    assert total == pytest.approx(after.projected.value)
    if each:
        assert after.shares[0].estimate.value == pytest.approx(7.5)


def test_a_rank_that_is_not_there_is_missing() -> None:
    """GIVEN fewer ranks THEN the missing rank's representative is named, or left out on request."""
    selection = selection_of(job(0, 1), each=True)
    said = r"3 regions .* in job, where rank1 had no device work: kernel b, call 1 in rank1; "
    with pytest.raises(MissingRegionError, match=said):
        validate(selection, job(0))
    with pytest.raises(MissingRegionError, match="kernel b, call 1 in rank1 of the selection"):
        selected_regions(selection, job(0))
    result = validate(selection, job(0), allow_missing=True)
    assert result.selection.covered == pytest.approx(6 / 10)
    # The projection covers both ranks: rank 0's exit also stands for rank 1's.
    assert result.projected.value == pytest.approx(7.0 * 8 / 5 + 0.5 * 2)


def test_further_ranks_count_to_the_clusters_of_their_kernels() -> None:
    """GIVEN more ranks than were profiled THEN their slices are attributed, and a note says so."""
    result = validate(selection_of(job(0, 1)), job(0, 1, 2))
    assert len(result.transplant.attributed) == 6
    assert "10 slices in the selection, 16 in job" in result.differences[0]
    assert sum(r.multiplier for r in result.selection.representatives) == pytest.approx(16)


def test_a_part_of_a_job_is_held_against_its_rank_alone() -> None:
    """GIVEN the selection of rank 1 THEN other ranks do not count."""
    own = part(selection_of(job(0, 1), each=True), 1)
    result = validate(own, job(0, 1))
    assert result.measured == pytest.approx(12.0)
    assert result.selection.slices == 4
    assert sum(r.weight for r in own.representatives) == pytest.approx(1.0)


def test_one_process_and_a_job_do_not_go_together() -> None:
    """The sentence names the run to select from."""
    with pytest.raises(InputError, match="select from a run of the whole job"):
        validate(select_by_kernel(made_up_run(A, TIMES)), job(0, 1))


def test_regions_of_every_rank() -> None:
    """A kernel given by name is timed in each process that has the call."""
    found = named_regions([KernelSpec("b", 1)], job(0, 1), warmup=3)
    assert [(r.slice, r.process) for r in found] == [(1, "rank0"), (6, "rank1")]
    # The slices before rank 1's first are rank 0's, and warm nothing of it.
    assert [(r.warmup, r.warmup_s) for r in found] == [(1, 1.0), (0, 0.0)]
    assert regions_text(found).split()[:2] == ["slice", "process"]
    chosen = selected_regions(selection_of(job(0, 1), each=True), job(1, 0))
    assert [r.seconds for r in chosen][:2] == [1.0, 2.0]


def test_without_a_sequence_markers_alone_decide() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES), identity=Identity())
    assert validate(selection, made_up_run(A, TIMES)).error == pytest.approx(0.0)
    with pytest.raises(MissingRegionError, match="kernel b, call 1"):
        validate(selection, made_up_run(["a/64", "c/64", "a/64", "c/64", "a/64"]))


def test_without_a_sequence_markers_are_found_in_another_order() -> None:
    """GIVEN a selection without a sequence WHEN the same kernels run in another order THEN its
    regions are those of the same markers, and clusters keep their sizes."""
    run = made_up_run(["start/1", "a/64", "b/64", "b/64", "b/64"])
    selection = select_by_kernel(run, identity=Identity())
    moved = made_up_run(["start/1", "b/64", "b/64", "b/64", "a/64"], [4, 9, 9, 9, 0.5, 0.5])
    result = validate(selection, moved)
    assert result.projected.value == pytest.approx(32.0)
    assert sum(r.multiplier for r in result.selection.representatives) == pytest.approx(6)
    found = {(r.kernel, r.call): r.seconds for r in selected_regions(selection, moved)}
    assert (found["a", 1], found["b", 1]) == (0.5, 9.0)
    assert "the launch sequence differs" in result.differences[0]


def test_a_sequence_that_contradicts_the_labels_is_refused() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    damaged = replace(selection, labels=np.append(selection.labels, 0).astype(np.int32))
    with pytest.raises(InputError, match="7 slices but its launch sequence has 6"):
        validate(damaged, made_up_run(A, TIMES))


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_images_are_compared_by_build_id(tmp_path: Path) -> None:
    programs = [
        compile_text(
            "int main(void) { return N; }", tmp_path / n / "app", "-Wl,--build-id", f"-DN={n}"
        )
        for n in "12"
    ]
    identities = [build_id(p) for p in programs]
    assert len(identities[0]) == 40
    assert identities[0] != identities[1]
    run = made_up_run(A, TIMES)
    images = (Image(str(programs[0]), identities[0]), Image("/gone/lib.so", "00"))
    selection = select_by_kernel(run, identity=Identity(Program(images=images)))
    assert image_differences(selection, [programs[0]]) == []
    (text,) = image_differences(selection, [programs[1]])
    assert "a different build" in text
    renamed = tmp_path / "app_O0"
    renamed.write_bytes(programs[1].read_bytes())
    (text,) = image_differences(selection, [renamed])
    assert f"{renamed} ({identities[1][:12]}) is not the program that was profiled" in text
    renamed.write_bytes(programs[0].read_bytes())
    assert image_differences(selection, [renamed]) == []
    launcher = shutil.which("env") or ""
    assert image_differences(selection, [launcher, programs[0], "7"]) == []
    (text,) = image_differences(selection, [launcher, programs[1]])
    assert "a different build" in text


def test_build_id_of_a_file_that_is_not_a_program(tmp_path: Path) -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01" + b"\xff" * 58):
        (tmp_path / "x").write_bytes(content)
        assert build_id(tmp_path / "x") == ""
    assert build_id(tmp_path / "none") == ""
    assert sys.executable


def test_transfer_table() -> None:
    origin = made_up_run(A, TIMES, name="A")
    twice = made_up_run(A, [t / 2 for t in TIMES], name="B")
    other = made_up_run(A, [2.0, 2.0, 3.0, 2.0, 3.0, 0.5], name="C")
    rows = hold_against(select_by_kernel(origin), [origin, twice, other])
    assert [row.name for row in rows] == ["A", "B", "C"]
    assert rows[1].measured_ratio == pytest.approx(2.0)
    assert rows[1].relative_error == pytest.approx(0.0)
    assert rows[2].validation.error == pytest.approx(0.16)
    assert rows[2].relative_error == pytest.approx(abs(1 - (7.5 / 10.5) / (7.5 / 12.5)))
    assert transfer_json(rows)[0]["relative_error"] == 0.0


def test_large_factors_are_written_alike() -> None:
    """GIVEN a reduction and a speedup beyond a thousand THEN both have separators."""
    run = made_up_run(["a/64"] * 5000)
    text = transfer_text(hold_against(select_by_kernel(run), [run]), "time")
    assert "2,500.5x" in text and not re.search(r"\d{4}[.]\dx", text)


# ---- regions -----------------------------------------------------------------------------------
def test_regions_of_a_selection_with_warm_up() -> None:
    run = made_up_run(A, TIMES)
    regions = selected_regions(select_by_kernel(run), run, warmup=2)
    assert [(r.slice, r.seconds, r.warmup, r.warmup_s) for r in regions] == [
        (0, 1.0, 0, 0.0),
        (1, 2.0, 1, 1.0),
        (5, 0.5, 2, 3.0),
    ]
    assert [r.multiplier for r in regions] == [3.0, 2.0, 1.0]


def test_named_regions() -> None:
    run = made_up_run(A, TIMES)
    regions = named_regions([KernelSpec("a", 2, 2), KernelSpec("b", 1)], run)
    assert [(r.kernel, r.call, r.slice) for r in regions] == [("a", 2, 2), ("a", 3, 4), ("b", 1, 1)]
    with pytest.raises(MissingRegionError, match="a was called 3 times in run, so call 4"):
        named_regions([KernelSpec("a", 3, 2)], run)
    with pytest.raises(MissingRegionError, match="c never ran in run; its kernels are: a, b"):
        named_regions([KernelSpec("c", 1)], run)


def test_missing_region_of_a_selection_is_named() -> None:
    selection = select_by_kernel(made_up_run(A, TIMES))
    with pytest.raises(MissingRegionError, match="kernel b, call 1"):
        selected_regions(selection, made_up_run(["a/64"], name="B"))


def test_regions_of_a_window_are_timed_in_that_window(tmp_path: Path) -> None:
    """GIVEN a selection of a window WHEN another part is to be timed THEN that is refused before
    the program starts: its launches would be taken for the window's."""
    selection = select_by_kernel(made_up_run(A, TIMES))
    identity = replace(selection.identity, window=SelectedWindow("2@solve"))
    replace(selection, identity=identity).write(tmp_path / "window.json")
    selection.write(tmp_path / "whole.json")
    for name, window, remedy in (
        ("window", "", "but this run covers the whole program; .*, with --window 2@solve"),
        ("window", "1@solve", "the window 2@solve, but this run covers the window 1@solve; "),
        ("whole", "1@solve", "the whole program, but .*, without --window"),
    ):
        with pytest.raises(InputError, match=remedy):
            time(
                ["true"],
                output=tmp_path / "T",
                regions=tmp_path / f"{name}.json",
                filters=Filters(window=window),
            )
        assert not (tmp_path / "T").exists()


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("k:3", KernelSpec("k", 3)),
        ("ns::f<int>:2:5", KernelSpec("ns::f<int>", 2, 5)),
        ("a:b:1", KernelSpec("a:b", 1)),
    ],
)
def test_kernel_specs(text: str, spec: KernelSpec) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize("text", ["", "k", "k:", "k:0", "k:x", ":1", "k:1:0", "k:-1"])
def test_bad_kernel_specs(text: str) -> None:
    with pytest.raises(UsageError, match="NAME:CALL"):
        parse_spec(text)
