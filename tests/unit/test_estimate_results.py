# SPDX-License-Identifier: Apache-2.0
"""Whole-run metrics from per-region results: hand-worked sums, means and bad files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.support.paths import DATA
from tests.support.profiles import ACCELSIM, COUNTERS, counted_rocpd, gem5_dump
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.cli.estimate import command
from xpuprof.errors import InputError, UsageError
from xpuprof.estimation.metrics import is_rate, whole_run
from xpuprof.formats.exporters import gem5_gpu, rocprofv3
from xpuprof.formats.results import read_results
from xpuprof.methods import two_phase
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection import parts
from xpuprof.selection.selection import Representative, Selection
from xpuprof.trace.kinds import Key
from xpuprof.trace.run_writer import create_run

A = ["a/64", "b/64", "a/64", "b/64", "a/64"]
CSV = "region,cycles,instructions,ipc\n1,100,200,2\n2,50,50,1\n3,10,5,0.5\n"


@pytest.fixture
def selection() -> Selection:
    """Regions a (x3), b (x2), exit (x1)."""
    return select_by_kernel(made_up_run(A))


def results_of(text: str, selection: Selection, folder: Path, name: str = "r") -> dict[int, dict]:
    (folder / name).write_text(text)
    return read_results([folder / name], selection)


def test_sums_and_means_by_hand(selection: Selection, tmp_path: Path) -> None:
    whole = {w.name: w for w in whole_run(selection, results_of(CSV, selection, tmp_path))}
    assert whole["cycles"].estimate.value == pytest.approx(3 * 100 + 2 * 50 + 10)
    assert whole["instructions"].estimate.value == pytest.approx(3 * 200 + 2 * 50 + 5)
    assert whole["ipc"].estimate.value == pytest.approx(705 / 410)
    assert whole["ipc"].kind == "mean weighted by cycles"
    assert whole["cycles"].estimate.low is None
    assert "one representative" in whole["cycles"].estimate.basis


@pytest.mark.parametrize("recorded", [True, False])
def test_the_next_selection_is_made_of_a_run(tmp_path: Path, recorded: bool) -> None:
    """GIVEN wide intervals THEN the next command names the run in which the selection lies; the
    folder of a selection that lies elsewhere is no run."""
    if recorded:
        create_run(tmp_path, argv=["./app"]).finish("complete")
    chosen, _ = stratified_selection(np.random.default_rng(1), [40], 3)
    chosen.write(tmp_path / "selection.json")
    (tmp_path / "r.csv").write_text("region,cycles\n1,100\n2,50\n3,10\n")
    given = [str(tmp_path / "selection.json"), "--results", str(tmp_path / "r.csv")]
    shown = CliRunner().invoke(command, given)
    run = tmp_path if recorded else "RUN"
    assert f"next: xpuprof select {run} --target-error 0.02 --force" in shown.stderr


def test_ipc_by_instructions_alone_is_the_harmonic_mean(
    selection: Selection, tmp_path: Path
) -> None:
    text = "region,instructions,ipc\n1,200,2\n2,50,1\n3,5,0.5\n"
    whole = {w.name: w for w in whole_run(selection, results_of(text, selection, tmp_path))}
    assert whole["ipc"].estimate.value == pytest.approx(705 / 410)
    assert "harmonic" in whole["ipc"].kind


def test_a_miss_ratio_takes_the_weight_it_is_given(selection: Selection, tmp_path: Path) -> None:
    text = "region,accesses,miss_ratio\n1,10,0.1\n2,20,0.4\n3,40,0\n"
    results = results_of(text, selection, tmp_path)
    with pytest.raises(InputError, match="neither instructions nor cycles"):
        whole_run(selection, results)
    whole = {w.name: w for w in whole_run(selection, results, {"miss_ratio": "accesses"})}
    assert whole["miss_ratio"].estimate.value == pytest.approx(
        (3 * 10 * 0.1 + 2 * 20 * 0.4) / (3 * 10 + 2 * 20 + 40)
    )
    assert whole_run(selection, results, sums=["miss_ratio"])[1].kind == "sum"
    with pytest.raises(UsageError, match="miss_ratio cannot be both a rate and a count; omit its"):
        whole_run(selection, results, {"miss_ratio": "accesses"}, ["miss_ratio"])


def test_a_weight_is_no_rate(selection: Selection, tmp_path: Path) -> None:
    results = results_of("region,cycles,ipc\n1,10,1\n2,20,2\n3,40,1\n", selection, tmp_path)
    with pytest.raises(
        InputError, match=r"cycles is what rates are weighted by here.*--rate cycles:"
    ):
        whole_run(selection, results, {"cycles": None})


def test_every_way_to_name_a_region(selection: Selection, tmp_path: Path) -> None:
    wanted = [{"x": 1.0}, {"x": 2.0}, {"x": 3.0}]
    tables = [
        "slice,x\n5,3\n0,1\n1,2\n",
        "# a comment\nkernel,call,x\nSYS_exit,1,3\na,1,1\nb,1,2\n",
        json.dumps([{"region": i + 1, "x": i + 1} for i in range(3)]),
        json.dumps({"regions": {"1": {"x": 1}, "2": {"x": 2}, "3": {"x": 3}}}),
        json.dumps({"3": {"x": 3}, "1": {"x": 1}, "2": {"x": 2}}),
    ]
    for text in tables:
        results = results_of(text, selection, tmp_path)
        assert [results[i] for i in range(3)] == wanted


def job_of_two(selection: Selection) -> Selection:
    """The selection of a process, twice: ranks 0 and 1."""
    keys = tuple(Key(f"rank{rank}", rank, "00", selection.slices) for rank in (0, 1))
    both = parts.joined([selection, selection])
    return replace(both, identity=replace(selection.identity, processes=keys, sequence=None))


def test_the_regions_of_one_process_keep_the_numbers_of_the_job(
    selection: Selection, tmp_path: Path
) -> None:
    """GIVEN the second process's selection of a job THEN its regions count on, as exported."""
    own = parts.part(job_of_two(selection), 1)
    results = results_of("region,x\n4,1\n5,2\n6,3\n", own, tmp_path)
    assert [results[i] for i in range(3)] == [{"x": 1.0}, {"x": 2.0}, {"x": 3.0}]
    with pytest.raises(InputError, match=r"has region 1, .* it has regions 4 to 6"):
        results_of("region,x\n1,1\n", own, tmp_path)
    with pytest.raises(InputError, match=r"region 6 \(program exit\) has no result"):
        results_of("region,x\n4,1\n5,2\n", own, tmp_path)


@pytest.mark.parametrize("given", [["."], ["rank0", "rank1"], ["rank0/r.csv", "rank1/r.csv"]])
def test_results_in_a_folder_of_a_process_are_its_own(
    selection: Selection, tmp_path: Path, given: list[str]
) -> None:
    """GIVEN folders as `export` names them THEN a file in one has results of that process, though
    it names regions by kernel and call, as simulators of one process do."""
    for rank in (0, 1):
        (tmp_path / f"rank{rank}").mkdir()
        text = f"kernel,call,x\na,1,{10 * rank + 1}\nb,1,{10 * rank + 2}\nprogram exit,1,0\n"
        (tmp_path / f"rank{rank}" / "r.csv").write_text(text)
    job = job_of_two(selection)
    results = read_results([tmp_path / name for name in given], job)
    assert [results[i]["x"] for i in range(6)] == [1, 2, 0, 11, 12, 0]


@pytest.mark.parametrize("name", ["all.csv", "rank0/all.csv"])
def test_a_table_of_the_whole_job_may_lie_beside_or_in_these_folders(
    selection: Selection, tmp_path: Path, name: str
) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}").mkdir()
    (tmp_path / name).write_text("region,x\n" + "".join(f"{i},{i}\n" for i in range(1, 7)))
    for given in (tmp_path, tmp_path / name):
        results = read_results([given], job_of_two(selection))
        assert [results[i]["x"] for i in range(6)] == [1, 2, 3, 4, 5, 6]


def test_the_region_to_name_is_one_of_the_process(selection: Selection, tmp_path: Path) -> None:
    (tmp_path / "rank1").mkdir()
    (tmp_path / "rank1" / "stats.txt").write_text(gem5_dump(100, 50, "0.5"))
    with pytest.raises(InputError, match=r"one result for 3 regions; .* as in --results 4="):
        read_results([tmp_path], job_of_two(selection))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("region,x\n1,1\n2,1\n", r"region 3 \(program exit\) has no result; give it 0 of"),
        ("region,x\n1,1\n3,1\n", r"region 2 \(b, call 1\) has no result; give results for all 3"),
        ("region,x\n1,1\n1,1\n2,1\n3,1\n", r"second result for region 1 \(a, call 1\)"),
        ("region,x\n1,1\n2,1\n3,1\n4,1\n", "region 4, which is not in the selection"),
        ("slice,x\n2,1\n", "slice 2, which is not a region"),
        ("kernel,call,x\na,2,1\n", "kernel a, call 2, which is not a region"),
        ("kernel,x\na,1\n", "names no region"),
        ("region,x\n1,nan\n2,1\n3,1\n", r"'nan' for x of region 1 \(a, call 1\)"),
        ("region,x\n1,inf\n2,1\n3,1\n", "not a finite number"),
        ("region,x\n1,\n2,1\n3,1\n", "not a finite number"),
        ("region,x\n1,1\n2\n3,1\n", "1 field in row 2 below a header of 2"),
        ("region,x,x\n1,1,1\n", "a column twice"),
        ("region\n1\n2\n3\n", "has no metric"),
        ("x\n1\n", "names no regions"),
        ("", "is empty; name the file"),
        ("region,x\n1,\0\n", "is not text; name the file"),
        ("region,x\n", "holds no result"),
        ("region,x\none,1\n", "not a whole number"),
        ("[1]", "not a list of results"),
        ("{", "not valid JSON"),
        ('[{"region": 1, "x": true}]', "not a finite number"),
        ('[{"region": 1, "x": NaN}]', "not a finite number"),
        ('[{"region":1,"x":1},{"region":2,"y":1},{"region":3,"x":1}]', "has no y"),
    ],
)
def test_bad_tables(text: str, said: str, selection: Selection, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        results_of(text, selection, tmp_path)


def test_gem5_stats_in_one_file_or_one_a_region(selection: Selection, tmp_path: Path) -> None:
    dumps = [gem5_dump(100, 200, "0.5"), gem5_dump(50, 50, "0.1"), gem5_dump(10, 5, "nan")]
    results = results_of("\n".join(dumps), selection, tmp_path)
    whole = {w.name: w.estimate.value for w in whole_run(selection, results)}
    assert whole["system.cpu.numCycles"] == pytest.approx(410)
    assert whole["system.cpu.ipc"] == pytest.approx(705 / 410)
    assert not {"hostSeconds", "system.l2.overallMissRate::total"} & whole.keys()
    for i, dump in enumerate(dumps):
        (tmp_path / f"{i}.txt").write_text(dump)
    named = [f"{i + 1}={tmp_path}/{i}.txt" for i in (2, 0, 1)]
    assert read_results(named, selection) == results
    with pytest.raises(InputError, match="name its region"):
        read_results([tmp_path / "0.txt"], selection)
    with pytest.raises(InputError, match="2 dumps of statistics for 3 regions"):
        results_of(dumps[0] + dumps[1], selection, tmp_path)
    with pytest.raises(InputError, match="does not end dump 2 of the statistics"):
        results_of(dumps[0] + dumps[1][:200], selection, tmp_path)


def test_accelsim_log(selection: Selection, tmp_path: Path) -> None:
    results = results_of(ACCELSIM.format(first=1, name="a"), selection, tmp_path)
    whole = {w.name: w.estimate.value for w in whole_run(selection, results)}
    assert whole["gpu_sim_cycle"] == pytest.approx(3 * 1000 + 2 * 500)
    assert whole["gpgpu_n_mem_read_global"] == pytest.approx(3 * 70 + 2 * 30)
    assert whole["L2_cache_stats_breakdown[GLOBAL_ACC_R][HIT]"] == pytest.approx(3 * 30 + 2 * 60)
    assert whole["gpu_ipc"] == pytest.approx(13000 / 4000)
    with pytest.raises(InputError, match=r"region 1 \(a, call 1\) has no result"):
        results_of(ACCELSIM.format(first=3, name="a"), selection, tmp_path)
    unnumbered = "\n".join(
        line for line in ACCELSIM.splitlines() if not line.startswith("Header")
    ).format(first=1, name="a")
    assert results_of(unnumbered, selection, tmp_path) == results
    cut = ACCELSIM.format(first=1, name="a") + (
        "GPGPU-Sim: ** break due to reaching the maximum cycles (or instructions) **\n"
    )
    with pytest.raises(InputError, match="cuts off kernel b"):
        results_of(cut, selection, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["ipc", "gpu_ipc", "system.cpu.cpi", "l2_miss_rate", "system.l2.overallMissRate::total",
     "hit_ratio", "gpu_occupancy", "L2_BW", "warp_efficiency", "bytes_per_cycle", "dram_util %",
     "sm__throughput.avg.pct_of_peak", "achieved_utilization", "L2 miss ratio",
     "gld_throughput", "l2_throughput_.reads.", "dram_bandwidth", "stall_inst_fetch", "GFLOPS",
     "power_w", "gpu.power", "clock_mhz", "dram_gb_s", "max_temp", "core_voltage",
     "system.clk_domain.clock"],
)  # fmt: skip
def test_names_of_rates(name: str) -> None:
    assert is_rate(name)


@pytest.mark.parametrize(
    "name",
    ["duration", "cycles", "generated", "operations", "iterations", "simInsts", "numCycles",
     "misses", "total dram reads", "upper_bound_hits", "means_to_an_end", "gpu_sim_insn",
     "gpu_stall_dramfull", "flop_count_sp", "stall_cycles",
     "powers_of_two", "clocks", "energy_j", "dram_gb", "system.l2.overallMissLatency::total"],
)  # fmt: skip
def test_names_of_sums(name: str) -> None:
    assert not is_rate(name)


def test_a_profilers_kernel_times_are_times() -> None:
    """GIVEN the column that profilers' results have THEN it narrows on the same machine as any time
    does, and weights a rate."""
    times = np.random.default_rng(1).lognormal(0, 1, 400)
    table = pd.DataFrame({"kernel": ["k"] * 400, "call": np.arange(400) + 1})
    chosen = two_phase.select(SliceProfile(table, times))
    rows = [r.slice for r in chosen.representatives]
    results = {
        i: {"time": times[r], "gpu_time": times[r], "dram_throughput": 5.0}
        for i, r in enumerate(rows)
    }
    whole = {w.name: w for w in whole_run(chosen, results, elsewhere=False)}
    assert whole["gpu_time"].estimate == whole["time"].estimate
    only = {i: {n: v for n, v in own.items() if n != "time"} for i, own in results.items()}
    assert whole_run(chosen, only)[1].kind == "mean weighted by gpu_time"


def stratified_selection(
    rng: np.random.Generator, sizes: list[int], draws: int
) -> tuple[Selection, np.ndarray]:
    """`draws` random slices of each cluster, without replacement."""
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    run = made_up_run(["k/1"] * (len(labels) - 1))
    base = select_by_kernel(run)
    representatives = []
    for cluster, size in enumerate(sizes):
        rows = rng.choice(np.flatnonzero(labels == cluster), draws, replace=False)
        representatives += [
            Representative(int(r), base.representatives[0].end, None, cluster, size / draws, 0.1)
            for r in rows
        ]
    chosen = Selection("test", {}, 1, tuple(representatives), labels)
    return chosen, np.array([r.slice for r in representatives])


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Sums and a ratio, in 600 random selections from one skewed population."""
    rng = np.random.default_rng(3)
    sizes = [400, 300, 50]
    cycles = np.concatenate(
        [rng.lognormal(mean, 0.3, n) for mean, n in ((1, 400), (3, 300), (5, 50))]
    )
    ipc = np.concatenate([rng.normal(mean, 0.1, n) for mean, n in ((2, 400), (1, 300), (3, 50))])
    instructions = cycles * ipc
    truth = {"cycles": cycles.sum(), "ipc": instructions.sum() / cycles.sum()}
    held = dict.fromkeys(truth, 0)
    trials = 600
    for _ in range(trials):
        chosen, rows = stratified_selection(rng, sizes, 8)
        results = {
            i: {"cycles": cycles[r], "ipc": instructions[r] / cycles[r]} for i, r in enumerate(rows)
        }
        for whole in whole_run(chosen, results):
            assert whole.estimate.low is not None
            assert whole.estimate.high is not None
            held[whole.name] += whole.estimate.low <= truth[whole.name] <= whole.estimate.high
    for name, count in held.items():
        # A binomial with p = 0.95 falls below 0.92 of 600 draws once in 1,000.
        assert count / trials >= 0.92, name
        assert count / trials < 0.995, name


def test_metrics_that_are_not_there(selection: Selection, tmp_path: Path) -> None:
    results = results_of(CSV, selection, tmp_path)
    with pytest.raises(UsageError, match="no metric power; they have cycles"):
        whole_run(selection, results, {"ipc": "power"})
    zero = {i: {"cycles": 0.0, "ipc": 1.0} for i in range(3)}
    with pytest.raises(InputError, match="negative or all 0"):
        whole_run(selection, zero)


def test_command(selection: Selection, tmp_path: Path) -> None:
    selection.write(tmp_path / "s.json")
    (tmp_path / "r.csv").write_text(CSV)
    arguments = [str(tmp_path / "s.json"), "--results", str(tmp_path / "r.csv")]
    shown = CliRunner().invoke(command, arguments)
    assert shown.exit_code == 0, shown.output
    assert "705" in shown.stdout
    answer = json.loads(
        CliRunner().invoke(command, [*arguments, "--json", "--metric", "ipc"]).stdout
    )
    (ipc,) = answer["metrics"]
    assert ipc["value"] == pytest.approx(705 / 410)
    assert answer["regions"] == 3
    missing = CliRunner().invoke(command, [*arguments, "--results", str(tmp_path / "none")])
    assert isinstance(missing.exception, InputError)


# ---- what a folder holds -------------------------------------------------------------------------


def test_a_folder_of_gem5_has_a_region_in_each_folders_name(
    selection: Selection, tmp_path: Path
) -> None:
    for region, cycles in ((1, 100), (2, 200), (3, 50)):
        folder = tmp_path / "m5" / f"region-{region}"
        folder.mkdir(parents=True)
        (folder / "stats.txt").write_text(gem5_dump(cycles, 10, "0.5"))
        (folder / "config.ini").write_text("[root]\ntype=Root\n")
    found = read_results([tmp_path / "m5"], selection)
    assert [found[i]["system.cpu.numCycles"] for i in range(3)] == [100, 200, 50]


@pytest.mark.parametrize(
    "name",
    [
        "m5out-{}/stats.txt",
        "gem5-v24.0/region-{}/m5out/stats.txt",
        "run/{}/stats.txt",
        "m5out/stats-{}.txt",
        "region-{}/try-{}/stats.txt",
    ],
)
def test_the_number_in_which_paths_differ_is_the_region(
    name: str, selection: Selection, tmp_path: Path
) -> None:
    """GIVEN paths with numbers that are the same in all WHEN another tells them apart THEN that one
    is the region's."""
    for region, cycles in ((1, 100), (2, 200), (3, 50)):
        path = tmp_path / "results" / name.replace("{}", str(region))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(gem5_dump(cycles, 10, "0.5"))
    found = read_results([tmp_path / "results"], selection)
    assert [found[i]["system.cpu.numCycles"] for i in range(3)] == [100, 200, 50]


def test_paths_that_differ_in_no_number_name_no_region(
    selection: Selection, tmp_path: Path
) -> None:
    for name in ("m5out-a", "m5out-b", "m5out-c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stats.txt").write_text(gem5_dump(100, 10, "0.5"))
    with pytest.raises(InputError, match="name its region, as in --results 1="):
        read_results([tmp_path], selection)


def test_a_folder_of_a_profiler_is_read_by_kernel_and_call(
    selection: Selection, tmp_path: Path
) -> None:
    """GIVEN the CSV of each kernel as the scripts of `export` write them THEN the chosen calls get
    their values, and the slice after the last kernel counts 0."""
    out = tmp_path / "out"
    rocprofv3.write(selection, out)
    lines = COUNTERS.splitlines(keepends=True)
    for kernel in ("a", "b"):
        own = [line for line in lines[1:] if f',"{kernel}",' in line]
        (out / f"kernel-{kernel}_counter_collection.csv").write_text("".join([lines[0], *own]))
    found = read_results([out], selection)
    assert [found[i]["SQ_WAVES"] for i in range(3)] == [16384, 16385, 0]
    (out / "kernel-c.csv").write_text(lines[0] + lines[1].replace('"a"', '"c"'))
    with pytest.raises(InputError, match="1 launches of c, of which the selection has 0"):
        read_results([out], selection)


def test_gem5s_gpu_runs_beside_their_list(selection: Selection, tmp_path: Path) -> None:
    """GIVEN gem5's statistics of launches, below the list that `export` wrote THEN the slice after
    the last kernel, which gem5 did not simulate, counts 0."""
    out = tmp_path / "out"
    gem5_gpu.write(selection, out)
    for region, cycles in ((1, 100), (2, 200)):
        (out / f"region-{region}").mkdir()
        (out / f"region-{region}" / "stats.txt").write_text(gem5_dump(cycles, 10, "0.5"))
    found = read_results([out], selection)
    assert [found[i]["system.cpu.numCycles"] for i in range(3)] == [100, 200, 0]


def test_counters_of_several_runs_are_joined(selection: Selection, tmp_path: Path) -> None:
    """GIVEN a profiler that ran the program for each group of counters THEN a region has them all;
    the same counters twice are refused."""
    lines = COUNTERS.splitlines(keepends=True)
    (tmp_path / "pass_1.csv").write_text("".join(lines[:3]))
    (tmp_path / "pass_2.csv").write_text("".join([lines[0], *lines[3:]]))
    found = read_results([tmp_path], selection)
    assert found[1] == {"gpu_time": 49780e-9, "SQ_WAVES": 16385, "SQ_INSTS_VALU": 9}
    (tmp_path / "pass_3.csv").write_text("".join(lines[:3]))
    with pytest.raises(InputError, match="a second result for region 1"):
        read_results([tmp_path], selection)


def test_rocpd_of_the_chosen_launches(selection: Selection, tmp_path: Path) -> None:
    counted_rocpd(tmp_path / "out.db", ["a", "b"])
    found = read_results([tmp_path], selection)
    assert [found[i]["TCC_HIT"] for i in range(3)] == [6, 7, 0]


def test_rocprofiler_compute_of_the_chosen_launches(selection: Selection, tmp_path: Path) -> None:
    """GIVEN a workload's folder THEN pmc_perf.csv is read, not the runs that it joins."""
    rows = (DATA / "rocprof-compute-pmc_perf.csv").read_text().splitlines()
    name = '"vecCopy(double*, double*, double*, int, int) [clone .kd]"'
    text = "\n".join([rows[0], rows[1].replace(name, "a"), rows[2].replace(name, "b")])
    for file in ("pmc_perf.csv", "pmc_perf_0.csv"):
        (tmp_path / file).write_text(text)
    found = read_results([tmp_path], selection)
    assert [found[i]["SQ_CYCLES"] for i in range(3)] == [399896, 345064, 0]


def test_a_folder_of_two_simulators_is_refused(selection: Selection, tmp_path: Path) -> None:
    (tmp_path / "stats.txt").write_text(gem5_dump(1, 1, "0.5"))
    (tmp_path / "log").write_text(ACCELSIM.format(first=1, name="a"))
    with pytest.raises(InputError, match=r"holds results of accelsim \(log\) and gem5"):
        read_results([tmp_path], selection)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no results that are known"):
        read_results([tmp_path / "empty"], selection)
