# SPDX-License-Identifier: Apache-2.0
"""The loop through GPGPU-Sim on its own logs: particles `2 128` simulated as a whole, and with only
the launches that Sieve chose. Tables that no reader uses were cut from the logs."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from pathlib import Path

import pytest

import xpuprof
from tests.support.run import run, xpuprof_text
from xpuprof.errors import InputError
from xpuprof.estimation.metrics import whole_run
from xpuprof.formats.exporters import gpgpusim
from xpuprof.formats.results import read_results
from xpuprof.selection.selection import Selection
from xpuprof.workflow.estimate import estimate_results

DATA = Path(__file__).parent / "data"
FULL, CHOSEN = DATA / "gpgpusim-full.log.gz", DATA / "gpgpusim-sieve.log.gz"
ALL_CYCLES, L2_MISSES = 185_795, 128
"""The whole program's totals, from the end of the full log."""
SIMULATOR = """
import ctypes
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(*(getenv(b"PTX_SIM_MODE_FUNC").decode() for _ in range(8)), getenv(b"OTHER"), getenv(b"NONE"))
print("gpu_sim_cycle = 1")
"""
"""Asks as GPGPU-Sim does: at its start, then at each of seven launches."""


@pytest.fixture
def imported(tmp_path: Path) -> xpuprof.Run:
    xpuprof.import_(FULL, tmp_path / "RUN")
    return xpuprof.open(tmp_path / "RUN")


@pytest.fixture
def selection(imported: xpuprof.Run) -> Selection:
    return imported.select("sieve")


def test_counters_of_every_kernel_add_up_to_the_simulators_totals(imported: xpuprof.Run) -> None:
    slices = imported.slices
    assert slices["cycles"].sum() == ALL_CYCLES
    assert slices["L2_total_cache_misses"].sum() == L2_MISSES
    # The simulator accumulates breakdowns by stream, and names the streams at random.
    l1 = slices.filter(regex="^Total_core_cache_stats_breakdown")
    assert (l1 >= 0).all(axis=None)
    assert l1.filter(like="TOTAL_ACCESS").sum(axis=None) == 16_680


@pytest.mark.parametrize("method", ["sieve", "pka", "stem-root", "xpu-stem", "random"])
def test_methods_choose_from_a_simulation(imported: xpuprof.Run, method: str) -> None:
    options = {"n": 3} if method == "random" else {}
    chosen = imported.select(method, **options)
    assert sum(r.multiplier for r in chosen.representatives) == pytest.approx(7, abs=0.1)


def test_the_chosen_launches_give_the_whole(selection: Selection, tmp_path: Path) -> None:
    """GIVEN a simulation of launches 1, 2 and 4 THEN each has the cycles of the whole simulation.
    L2 misses are too many: the first launch, with cold caches, stands for all of its kernel."""
    out = tmp_path / "out"
    gpgpusim.write(selection, out)
    selection.write(out / "selection.json")
    shutil.copy(CHOSEN, out / "gpgpusim.log.gz")
    found = {w.name: w.estimate.value for w in estimate_results(selection, [str(out)])}
    every = {
        w.name: w.estimate.value for w in whole_run(selection, read_results([FULL], selection))
    }
    assert found["gpu_sim_cycle"] == every["gpu_sim_cycle"] == pytest.approx(ALL_CYCLES, rel=2e-4)
    assert found["L2_total_cache_misses"] == every["L2_total_cache_misses"] > 2 * L2_MISSES


def test_profiled_times_tell_no_interval_of_misses(imported: xpuprof.Run) -> None:
    """GIVEN one draw a stratum, whose equal times were profiled THEN the cycles have an interval,
    the misses none: their spread is unknown, on the same machine too. Those of L2 are all in
    launches that stand for no other."""
    chosen = imported.select("stem-root")
    whole = estimate_results(chosen, [str(FULL)], same_machine=True)
    found = {w.name: w.estimate for w in whole}
    assert found["gpu_sim_cycle"].low <= ALL_CYCLES <= found["gpu_sim_cycle"].high
    assert found["L1D_total_cache_misses"].low is None
    assert "another machine or metric needs 2" in found["L1D_total_cache_misses"].basis
    assert found["L2_total_cache_misses"].low is None
    assert "0 in every representative of slices" in found["L2_total_cache_misses"].basis


def test_a_partial_simulation_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="executed without being simulated"):
        xpuprof.import_(CHOSEN, tmp_path / "RUN")


def test_the_log_of_another_program_is_refused(selection: Selection, tmp_path: Path) -> None:
    text = gzip.decompress(CHOSEN.read_bytes()).decode()
    (tmp_path / "log").write_text(text.replace("kernel_name = _Z9Integrate", "kernel_name = x"))
    with pytest.raises(InputError, match="as kernel 4, where the selection has _Z9Integrate"):
        read_results([tmp_path / "log"], selection)


@pytest.mark.parametrize(
    ("warmup", "modes"), [(0, "1 0 0 1 0 1 1 1"), (1, "1 0 0 0 0 1 1 1")], ids=["cold", "warm"]
)
def test_the_simulator_is_told_which_launches_to_simulate(
    selection: Selection, tmp_path: Path, warmup: int, modes: str
) -> None:
    """GIVEN launches 1, 2 and 4 of 7 chosen THEN the simulator gets mode 0 (detailed) for them and,
    with warm-up, for the launch before the fourth."""
    out = tmp_path / "out"
    gpgpusim.write(selection, out, warmup=dict.fromkeys(range(100), warmup))
    (tmp_path / "gpgpusim.config").touch()
    run(
        ["sh", out / "run.sh", sys.executable, "-c", SIMULATOR],
        cwd=tmp_path,
        environment={**os.environ, "OTHER": "x", "PTX_SIM_MODE_FUNC": "7"},
        check=True,
    )
    assert (out / "gpgpusim.log").read_text().splitlines()[0] == f"{modes} b'x' None"


@pytest.mark.parametrize(
    ("format", "options", "cold"),
    [
        ("gpgpusim", [], True),
        ("gpgpusim", ["--warmup", "1"], False),
        ("ncu", [], False),
    ],
)
def test_cold_caches_are_pointed_out(
    selection: Selection, tmp_path: Path, format: str, options: list[str], cold: bool
) -> None:
    """WHEN a format that can carry warm-up gets none THEN `export` names the option."""
    selection.write(tmp_path / "s.json")
    line = ["export", tmp_path / "s.json", "--format", format, "-o", tmp_path / "out", *options]
    done = xpuprof_text(*line)
    assert done.returncode == 0, done.stderr
    assert ("regions begin with cold caches; --warmup 1" in done.stderr) == cold


@pytest.mark.parametrize(
    ("config", "program", "code", "sentence"),
    [
        (False, "true", 2, b"gpgpusim.config"),
        (True, "true", 1, b"no kernel was simulated"),
        (True, "false", 1, b""),
    ],
)
def test_a_simulation_that_fails_says_so(
    selection: Selection, tmp_path: Path, config: bool, program: str, code: int, sentence: bytes
) -> None:
    gpgpusim.write(selection, tmp_path)
    if config:
        (tmp_path / "gpgpusim.config").touch()
    done = run(["sh", tmp_path / "run.sh", program], cwd=tmp_path)
    assert done.returncode == code and sentence in done.stderr
