# SPDX-License-Identifier: Apache-2.0
"""CPU regions, re-read by the rules of gem5 and zsim and replayed against a made-up execution with
a known order of instructions."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.compile import compile_text, symbols
from tests.support.consumers import gem5_fires, gem5_looppoint
from tests.support.processes import process_from, with_tables
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.errors import InputError
from xpuprof.formats.exporters import looppoint, pinpoints, zsim
from xpuprof.selection.selection import Selection
from xpuprof.trace.elf import entry_offset, fini_offset, function_offsets, lowest_address
from xpuprof.trace.records import ProcessMeta
from xpuprof.trace.tables import Blocks, CpuVectors, Process, Tables

SOURCE = """
void step(void) {}
void rarely(void) {}
int main(void) { step(); rarely(); return 0; }
"""

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


TWO = dict.fromkeys(range(100), 2)
"""Two warm-up slices before every slice."""


@dataclass
class MadeUp:
    """`trace[i]` lists the blocks executed in slice i, in order: (thread, block)."""

    process: Process
    selection: Selection
    trace: list[list[tuple[int, int]]]
    block_pc: list[int]
    instructions: list[int]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program linked at a fixed address."""
    return compile_text(SOURCE, tmp_path_factory.mktemp("program") / "app", "-O0", "-no-pie")


@pytest.fixture(params=[1, 2, 3])
def made_up(request: pytest.FixtureRequest, program: Path) -> MadeUp:
    """Threads 0 and 1; one function once per slice (not in 3), others at random, two lengths of one
    block; the last function at exit (not in 2)."""
    rng = random.Random(request.param)
    base, names = lowest_address(program), symbols(program)
    pcs = [names["step"], names["rarely"], names["main"] + 8, names["main"] + 8, 64,
           base + entry_offset(program), names["_fini"]]  # fmt: skip
    image = [1, 1, 1, 1, 0, 1, 1]
    instructions = [3, 4, 5, 9, 7, 2, 1]
    launches = ["a/1", "b/1", "c/1"] * 4
    trace: list[list[tuple[int, int]]] = []
    for number in range(len(launches) + 1):
        body = [(rng.randrange(2), rng.choice([1, 2, 3, 4])) for _ in range(rng.randrange(5, 30))]
        if request.param != 3:
            body.insert(rng.randrange(len(body)), (0, 0))
        if number == len(launches) and request.param != 2:
            body.append((0, 6))
        trace.append([(0, 5), *body] if number == 0 else body)
    run = made_up_run(launches)
    tables = Tables(
        slices=run.slices,
        kernels=pd.DataFrame(),
        gpu=None,
        images=pd.DataFrame({"path": ["/lib/libother.so", str(program)], "build_id": ["", "00"]}),
        threads=pd.DataFrame(),
        copies=pd.DataFrame(),
    )  # fmt: skip
    offsets = [p - (base if i else 0) for p, i in zip(pcs, image, strict=True)]
    cpu = vectors(trace, image, offsets, instructions)
    return MadeUp(process_from(tables, cpu, "h-1"), select_by_kernel(run), trace, pcs, instructions)


def vectors(
    trace: list[list[tuple[int, int]]], image: list[int], offset: list[int], size: list[int]
) -> CpuVectors:
    rows = [
        (number, thread, block, count)
        for number, body in enumerate(trace)
        for (thread, block), count in sorted(Counter(body).items())
    ]
    columns = np.array(rows).T
    starts = np.searchsorted(columns[0], np.arange(len(trace) + 1))
    return CpuVectors(
        columns[1].astype(np.uint32),
        columns[2].astype(np.uint32),
        columns[3].astype(np.uint64),
        starts.astype(np.uint64),
        Blocks(np.arange(len(size), dtype=np.uint64), np.array(size, dtype=np.uint32)),
        np.array(image, dtype=np.uint32),
        np.array(offset, dtype=np.uint64),
    )


def fires_in(made_up: MadeUp, pc: int, count: int) -> tuple[int, int]:
    """gem5's PC counter, over all threads: (slice, place in the whole execution) where it fires."""
    seen = place = 0
    for number, body in enumerate(made_up.trace):
        for _, block in body:
            if made_up.block_pc[block] == pc:
                seen += 1
                if seen == count:
                    return number, place
            place += 1
    raise AssertionError(f"({pc:#x}, {count}) never fires")


def gem5_reads_csv(path: Path) -> tuple[dict[int, dict], dict[int, dict]]:
    """gem5's LooppointCsvLoader: split at spaces, `|` quotes, by column number."""
    regions, warmups = {}, {}
    with path.open(newline="") as file:
        for row in csv.reader(file, delimiter=" ", quotechar="|"):
            if len(row) > 1 and row[0] == "cluster":
                line = row[4].split(",")
                assert len(line) == 16
                regions[int(line[2])] = {
                    "start": (int(line[3], 16), int(line[6])),
                    "end": (int(line[7], 16), int(line[10])),
                    "relative": int(line[11]),
                    "multiplier": float(line[14]),
                }
            elif len(row) > 1 and row[0] == "Warmup":
                line = row[3].split(",")
                warmups[int(line[0])] = {
                    "start": (int(line[3], 16), int(line[6])),
                    "end": (int(line[7], 16), int(line[10])),
                }
    return regions, warmups


def gem5_reads_json(path: Path) -> tuple[dict[int, dict], dict[int, dict]]:
    """gem5's LooppointJsonLoader."""
    regions, warmups = {}, {}
    for rid, entry in json.loads(path.read_text()).items():
        start, end = entry["simulation"]["start"], entry["simulation"]["end"]
        regions[int(rid)] = {
            "start": (int(start["pc"]), int(start["global"])),
            "end": (int(end["pc"]), int(end["global"])),
            "relative": int(end["relative"]),
            "multiplier": float(entry["multiplier"]),
        }
        if "warmup" in entry:
            warmups[int(rid)] = {
                side: (entry["warmup"][side]["pc"], entry["warmup"][side]["count"])
                for side in ("start", "end")
            }
    return regions, warmups


@pytest.mark.parametrize("kind", ["pinpoints", "looppoint"])
def test_every_marker_fires_where_it_should(made_up: MadeUp, kind: str, tmp_path: Path) -> None:
    if kind == "pinpoints":
        pinpoints.write(made_up.selection, made_up.process, tmp_path / "t", warmup=TWO)
        regions, warmups = gem5_reads_csv(tmp_path / "t.pc.csv")
    else:
        looppoint.write(made_up.selection, made_up.process, tmp_path / "t.json", warmup=TWO)
        regions, warmups = gem5_reads_json(tmp_path / "t.json")
    last = len(made_up.trace) - 1
    assert sorted(regions) == [1, 2, 3, 4]
    for number, r in enumerate(made_up.selection.representatives, start=1):
        region = regions[number]
        start_slice, start = fires_in(made_up, *region["start"])
        end_slice, end = fires_in(made_up, *region["end"])
        assert start_slice == r.slice
        assert end_slice == (last if r.slice == last else r.slice + 1)
        assert start < end
        assert region["multiplier"] == r.multiplier
        flat = [b for body in made_up.trace for _, b in body]
        inside = [made_up.block_pc[b] for b in flat[start : end + 1]]
        same = region["start"][0] == region["end"][0]
        if same or r.slice == 0:
            assert region["relative"] == inside.count(region["end"][0]) - same
        if r.slice:
            warm_slice, _ = fires_in(made_up, *warmups[number]["start"])
            assert warm_slice == max(r.slice - 2, 0)
            assert warmups[number]["end"] == region["start"]
    assert 1 not in warmups


@pytest.mark.parametrize("kind", ["pinpoints", "looppoint"])
def test_gem5s_own_classes_read_our_regions_and_stop_there(
    made_up: MadeUp, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN regions with warm-up WHEN gem5's loader reads them and its counter follows the
    execution THEN it stops where each region and its warm-up begin and end."""
    gem5 = gem5_looppoint(monkeypatch)
    if kind == "pinpoints":
        pinpoints.write(made_up.selection, made_up.process, tmp_path / "t", warmup=TWO)
        loaded = gem5.LooppointCsvLoader(tmp_path / "t.pc.csv")
        regions, warmups = gem5_reads_csv(tmp_path / "t.pc.csv")
    else:
        looppoint.write(made_up.selection, made_up.process, tmp_path / "t.json", warmup=TWO)
        loaded = gem5.LooppointJsonLoader(tmp_path / "t.json")
        regions, warmups = gem5_reads_json(tmp_path / "t.json")
    found = {int(number): region for number, region in loaded.get_regions().items()}
    assert sorted(found) == sorted(regions)
    for number, region in found.items():
        simulation, ours = region.get_simulation(), regions[number]
        start, end = simulation.get_start(), simulation.get_end()
        assert (start.get_pc(), start.get_global()) == ours["start"]
        assert (end.get_pc(), end.get_global()) == ours["end"]
        assert (end.get_relative(), region.get_multiplier()) == (
            ours["relative"],
            ours["multiplier"],
        )
        assert bool(region.get_warmup()) == (number in warmups)
    targets = {(pair.pc, pair.count) for pair in loaded.get_targets()}
    executed = [made_up.block_pc[block] for body in made_up.trace for _, block in body]
    expected = sorted(fires_in(made_up, pc, count)[1] for pc, count in targets)
    assert gem5_fires(targets, executed, tmp_path / "gem5") == expected
    for number, region in found.items():
        start = region.get_start()
        first = made_up.selection.representatives[number - 1].slice
        begins = max(first - 2, 0) if number in warmups else first
        assert fires_in(made_up, start.pc, start.count)[0] == begins


def test_a_function_called_once_a_slice_is_the_marker(
    made_up: MadeUp, program: Path, tmp_path: Path
) -> None:
    """The same place in every slice."""
    if not any(block == 0 for _, block in made_up.trace[1]):
        pytest.skip("this made-up program has none")
    looppoint.write(made_up.selection, made_up.process, tmp_path / "t.json")
    regions, _ = gem5_reads_json(tmp_path / "t.json")
    step = symbols(program)["step"]
    assert regions[2]["start"] == (step, 2)
    assert regions[2]["end"] == (step, 3)
    assert regions[2]["relative"] == 1
    assert regions[1]["start"] == (symbols(program)["_start"], 1)


def test_a_position_independent_program_is_moved(made_up: MadeUp, tmp_path: Path) -> None:
    looppoint.write(made_up.selection, made_up.process, tmp_path / "0.json", image_base=0)
    looppoint.write(made_up.selection, made_up.process, tmp_path / "1.json", image_base=0x10000)
    at_0, at_1 = (gem5_reads_json(tmp_path / f"{n}.json")[0] for n in (0, 1))
    assert at_1[1]["start"][0] - at_0[1]["start"][0] == 0x10000


def test_regions_by_instruction_count(made_up: MadeUp, tmp_path: Path) -> None:
    pinpoints.write(made_up.selection, made_up.process, tmp_path / "t")
    lines = (tmp_path / "t.icount.csv").read_text().splitlines()
    records = [line for line in lines if re.match(r"cluster \d+ from slice \d+,", line)]
    before = [0]
    for body in made_up.trace:
        before.append(before[-1] + sum(made_up.instructions[b] for t, b in body if t == 0))
    for record, r in zip(records, made_up.selection.representatives, strict=True):
        fields = record.split(",")
        assert len(fields) == len(lines[1].split(",")) == 6
        assert (int(fields[3]), int(fields[4])) == (before[r.slice], before[r.slice + 1])
        assert float(fields[5]) == pytest.approx(r.weight, abs=1e-6)


def zsim_simulates(text: str) -> list[tuple[int, int]]:
    """zsim: the numbers are added up; fast-forward and simulation alternate at each sum."""
    forwarded = re.search(r"startFastForwarded = (true|false);", text)
    points = re.search(r'ffiPoints = "([\d ]+)";', text)
    assert forwarded
    assert points
    simulating, at, stretches = forwarded[1] == "false", 0, []
    for length in (int(n) for n in points[1].split()):
        if simulating:
            stretches.append((at, at + length))
        at += length
        simulating = not simulating
    return stretches


def test_zsim(made_up: MadeUp, tmp_path: Path) -> None:
    zsim.write(made_up.selection, made_up.process, tmp_path / "z")
    before = [0]
    for body in made_up.trace:
        before.append(before[-1] + sum(made_up.instructions[b] for _, b in body))
    # Slices 0, 1, 2 (one stretch) and the last are chosen.
    assert zsim_simulates((tmp_path / "z").read_text()) == [
        (0, before[3]),
        (before[-2], before[-1]),
    ]
    rows = list(csv.DictReader((tmp_path / "z.weights.csv").open()))
    assert [(r["stretch"], r["region"], r["slice"]) for r in rows] == [
        ("1", "1", "0"),
        ("1", "2", "1"),
        ("1", "3", "2"),
        ("2", "4", "12"),
    ]


def test_zsim_begins_with_fast_forward_when_the_first_slice_is_not_chosen(
    made_up: MadeUp, tmp_path: Path
) -> None:
    later = replace(made_up.selection, representatives=tuple(made_up.selection.representatives[1:]))
    zsim.write(later, made_up.process, tmp_path / "z")
    assert "startFastForwarded = true;" in (tmp_path / "z").read_text()
    first = sum(made_up.instructions[b] for _, b in made_up.trace[0])
    assert zsim_simulates((tmp_path / "z").read_text())[0][0] == first


def test_what_cannot_be_exported(made_up: MadeUp, tmp_path: Path) -> None:

    without = with_tables(made_up.process, cpu=None)
    for write in (looppoint.write, pinpoints.write, zsim.write):
        with pytest.raises(InputError, match=r"no CPU block vectors.*profile --cpu"):
            write(made_up.selection, without, tmp_path / "x")
    unnumbered = replace(made_up.process, meta=ProcessMeta({"cpu_start_up": "native"}))
    for write in (looppoint.write, pinpoints.write, zsim.write):
        with pytest.raises(InputError, match=r"start-up ran natively.*--start-up counted"):
            write(made_up.selection, unnumbered, tmp_path / "x")
    other = select_by_kernel(made_up_run(["a/1"]))
    with pytest.raises(InputError, match="2 slices, the run 13"):
        looppoint.write(other, made_up.process, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_addresses_of_the_program(program: Path) -> None:
    names = symbols(program)
    base = lowest_address(program)
    assert base == 0x400000
    assert base + entry_offset(program) == names["_start"]
    assert base + (fini_offset(program) or 0) == names["_fini"]
    assert {names["step"] - base, names["main"] - base} <= function_offsets(program)
    assert function_offsets(program.with_suffix(".c")) == set()
