# SPDX-License-Identifier: Apache-2.0
"""The consumers' own readers of what we export, compiled from their sources, and what other tools'
repositories hold of the formats that we import. They lie outside the project: XPUPROF_CONSUMERS
names a folder with checkouts of accel-sim/accel-sim-framework (dev), gthparch/Macsim_tracer,
gem5/gem5, mlcommons/chakra and ROCm/rocm-systems. Without it the tests that need them skip."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.run import output, run_text

FOLDER = "XPUPROF_CONSUMERS"


def source(path: str) -> Path:
    """A file of a consumer's sources, or skip."""
    if FOLDER not in os.environ:
        pytest.skip(f"needs {path.partition('/')[0]}'s sources in the folder that {FOLDER} names")
    found = Path(os.environ[FOLDER]) / path
    if not found.exists():
        pytest.skip(f"{found} is missing")
    return found


def built(folder: Path, text: str, *more: str | Path) -> Path:
    """A C++ program around a consumer's code, whose warnings are its own."""
    folder.mkdir(exist_ok=True)
    (folder / "main.cpp").write_text(text)
    output(["g++", "-std=c++17", "-w", *more, folder / "main.cpp", "-o", folder / "main"])
    return folder / "main"


# ---- Accel-Sim -----------------------------------------------------------------------------------

ACCELSIM = """
#include <bits/stdc++.h>
#include "trace_parser.h"
int main(int, char **list) {
  trace_parser parser(list[1]);
  for (const trace_command &command : parser.parse_commandlist_file())
    std::cout << (command.m_type == kernel_launch ? "" : "copy ") << command.command_string
              << std::endl;
}
"""


def accelsim_commands(kernelslist: Path, folder: Path) -> list[str]:
    """What Accel-Sim's trace parser takes from a kernel list."""
    parser = source("accel-sim-framework/gpu-simulator/trace-parser/trace_parser.cc")
    program = built(folder, ACCELSIM, f"-I{parser.parent}", parser)
    return output([program, kernelslist]).splitlines()


# ---- MacSim --------------------------------------------------------------------------------------

MACSIM = """
#include <cassert>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>
int main(int, char **words) {
  std::string sampled_kernel_path = words[1], trace_path = "./";
  std::vector<int> sampled_kernel_ids;
  %s
  for (int id : sampled_kernel_ids) std::cerr << id << "\\n";
}
"""


def macsim_samples(file: Path, folder: Path) -> list[int]:
    """The launches that MacSim's NVBit tool takes from SAMPLED_KERNEL_INFO: the statement of its
    start-up code that reads it."""
    text = source("Macsim_tracer/tools/main/mem_trace.cu").read_text()
    begin = text.index('if (sampled_kernel_path != "")')
    program = built(folder, MACSIM % text[begin : text.index("\n}\n", begin)])
    done = run_text([program, file], cwd=folder, check=True)
    return [int(line) for line in done.stderr.splitlines()]


# ---- gem5 ----------------------------------------------------------------------------------------


def _part(file: Path, name: str, **names: Any) -> Any:
    """One class or function of a module that only gem5 itself can import."""
    tree = ast.parse(file.read_text())
    (found,) = (node for node in tree.body if getattr(node, "name", "") == name)
    exec(compile(ast.Module([found], []), str(file), "exec"), names)
    return names[name]


def _module(name: str, **names: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(names)
    return made


def gem5_looppoint(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """gem5's resources/looppoint.py with its own PcCountPair; the rest of m5 is gem5's binary."""
    file = source("gem5/src/python/gem5/resources/looppoint.py")
    pair = _part(source("gem5/src/python/m5/params.py"), "PcCountPair", ParamValue=object)
    options = _module("m5.options", outdir=".")
    for module in (
        _module("m5", options=options),
        _module("m5.objects", PcCountTrackerManager=lambda: _module("manager")),
        _module("m5.params", PcCountPair=pair),
    ):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("looppoint", file)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def gem5_simpoints(base: Path, interval: int, warmup: int) -> list[tuple[int, float, int, int]]:
    """(interval, weight, first instruction, warm-up) as gem5's se.py reads SimPoint's files."""
    file = source("gem5/configs/common/Simulation.py")
    parse = _part(file, "parseSimpointAnalysisFile", fatal=pytest.fail)
    asked = f"{base}.simpoints,{base}.weights,{interval},{warmup}"
    cpu = _module("cpu")
    points, length = parse(
        _module("options", take_simpoint_checkpoints=asked), _module("system", cpu=[cpu])
    )
    assert length == interval
    assert cpu.simpoint_start_insts == [start for _, _, start, _ in points]
    return list(points)


GEM5_HEADERS = {
    "base/types.hh": "#include <cstdint>\nnamespace gem5 { using Addr = uint64_t; }",
    "params/PcCountTrackerManager.hh": """#include <string>
#include <vector>
#include "cpu/probes/pc_count_pair.hh"
namespace gem5 {
struct PcCountTrackerManagerParams { std::vector<PcCountPair> targets; };
}""",
    "cpu/base.hh": """#include "params/PcCountTrackerManager.hh"
namespace gem5 {
struct SimObject { SimObject(const PcCountTrackerManagerParams &) {} };
}""",
    "sim/sim_exit.hh": "namespace gem5 { void exitSimLoopNow(const char *); }",
    "debug/PcCountTracker.hh": "#define DPRINTF(...)",
}
"""What gem5 makes when it is built, and the parts of the simulator that the counter calls."""

GEM5_COUNTER = """
#include <iostream>
#include "cpu/probes/pc_count_tracker_manager.hh"
static size_t place;
void gem5::exitSimLoopNow(const char *) { std::cout << place << "\\n"; }
int main() {
  gem5::PcCountTrackerManagerParams params;
  size_t n;
  uint64_t pc;
  int count;
  for (std::cin >> n; n && std::cin >> pc >> count; n--) params.targets.emplace_back(pc, count);
  gem5::PcCountTrackerManager manager(params);
  for (; std::cin >> pc; place++)
    if (manager.getPcCount(pc) >= 0) manager.checkCount(pc);
}
"""


def gem5_fires(
    targets: Iterable[tuple[int, int]], executed: Iterable[int], folder: Path
) -> list[int]:
    """Where gem5's PcCountTrackerManager leaves the simulation, as places in what is executed."""
    manager = source("gem5/src/cpu/probes/pc_count_tracker_manager.cc")
    for name, text in GEM5_HEADERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#pragma once\n{text}\n")
    program = built(folder, GEM5_COUNTER, f"-I{folder}", f"-I{manager.parents[2]}", manager)
    pairs = [f"{pc} {count}" for pc, count in targets]
    told = " ".join([str(len(pairs)), *pairs, *map(str, executed)])
    return [int(place) for place in output([program], stdin=told).split()]
