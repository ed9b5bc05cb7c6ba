# SPDX-License-Identifier: Apache-2.0
"""One program through every command, as a user would type them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from tools.evidence.programs import Program

ROOT = Path(__file__).parents[2]
REPEATS, SEEDS = 3, (1, 2, 3, 4, 5)
DRAWS = {0.02: 5, 0.05: 20, 0.1: 5}
"""Seeds of `compare` at each error bound; 0.05 is the default."""
KEPT = (
    *("method", "error_mean", "error_max", "error_inner", "error_unmeasured"),
    *("measured_share", "time_speedup", "samples", "coverage", "bound"),
)
"""What the page shows of a method."""
LIMIT_S = 1200
"""No command of the suite takes longer."""
LONG_S = 3.0
"""Programs of this native time are not run under a CPU engine alone, which translates kernels."""
SELECTED = "valgrind"
"""The CPU engine of `run`, whatever else is present: it needs no kit."""


Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """One process, with its children. `memory_mb`: the largest of them."""

    code: int
    wall_s: float
    cpu_s: float
    memory_mb: float
    output: str
    said: str


def measure(program: Program, place: Path, python: Path, cpu_engines: Sequence[str]) -> Record:
    """The record of a program: facts by name, and under `failed` what could not be had. It is
    written after each step; a step that it holds is not done again."""
    suite = Suite(program, place, python)
    file = place / "record.json"
    record: Record = json.loads(file.read_text()) if file.exists() else {"done": [], "failed": {}}
    record |= {"program": program.name, "kind": program.kind}
    for name, step in suite.steps(cpu_engines).items():
        if name in record["done"] or "native" in record["failed"]:
            continue
        print(f"{program.name}: {name}", file=sys.stderr, flush=True)
        try:
            found = step(record)
        except Failed as failure:
            found = {"failed": record["failed"] | {name: str(failure)}}
        record |= {**found, "done": [*record["done"], name]}
        file.write_text(json.dumps(record, indent=1) + "\n")
    return record


def cpu_engines() -> list[str]:
    """The CPU engines that this machine can use."""
    line = (sys.executable, "-m", "xpuprof", "doctor", "--json", "-q")
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    engines = json.loads(said)["engines"]
    return [e["engine"] for e in engines if e["available"] and e["side"] == "CPU"]


class Failed(Exception):
    """A command that gave no result; its message says why."""


class Suite:
    """The commands for one program, in a folder of its own."""

    def __init__(self, program: Program, place: Path, python: Path) -> None:
        self._program = program
        self._place = place
        self._python = python
        self._folder = place / "run"
        place.mkdir(parents=True, exist_ok=True)

    def steps(self, cpu_engines: Sequence[str]) -> dict[str, Callable[[Record], Record]]:
        """What is measured, in this order."""
        engines = {"engine GPU": ("--cpu", "none")}
        for name in cpu_engines:
            engines[f"engine {name}"] = ("--cpu", name, "--gpu", "none")
            engines[f"engine {name} and GPU"] = ("--cpu", name)
        return {
            "native": self.alone,
            "run": self.run,
            "seeds": self.seeds,
            "methods": self.methods,
            "report": self.report,
            **{name: partial(self.engine, name, words) for name, words in engines.items()},
            "again": self.again,
        }

    def filled(self, line: Sequence[str]) -> list[str]:
        """The words of a command, with the folders that it names."""
        names = {
            "python": self._python,
            "drivers": Path(__file__).with_name("drivers"),
            "root": ROOT,
        }
        return [re.sub(r"\{(\w+)\}", lambda m: str(names[m[1]]), word) for word in line]

    def start(self, line: Sequence[str]) -> Outcome:
        """Runs a command to its end in the program's folder."""
        environment = os.environ | dict(self._program.environment)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as said:
            begin = time.perf_counter()
            process = subprocess.Popen(
                list(line),
                cwd=self._place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=said,
            )
            killer = threading.Timer(LIMIT_S, process.kill)
            killer.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            killer.cancel()
            wall = time.perf_counter() - begin
            output.seek(0)
            said.seek(0)
            return Outcome(
                process.returncode,
                wall,
                usage.ru_utime + usage.ru_stime,
                usage.ru_maxrss / 1024,
                output.read().decode(errors="replace"),
                said.read().decode(errors="replace"),
            )

    def native(self) -> Outcome:
        """The program alone."""
        return self.start(self.filled(self._program.command))

    def alone(self, record: Record) -> Record:
        """The program alone, several times, and on what machine and at which commit."""
        if self._program.prepare:
            self.start(self.filled(self._program.prepare))
        native = [self.native() for _ in range(1 + REPEATS)][1:]  # the first one fills caches
        bad = [run for run in native if not self.passes(run)]
        if bad:
            said = _last_line(bad[0].said)
            raise Failed(f"not right without us: exit code {bad[0].code}: {said}")
        git = ("git", "describe", "--always", "--dirty", "--exclude=*")
        said = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
        return {
            "commit": said.stdout.strip(),
            "native_s": median(run.wall_s for run in native),
            "native_cpu_s": median(run.cpu_s for run in native),
            "native_mb": max(run.memory_mb for run in native),
            "output": native[-1].output,
            "passes": True,
        }

    def passes(self, done: Outcome) -> bool:
        """Whether the program's own check of its result holds."""
        text = done.output + done.said
        return done.code == 0 and re.search(self._program.passes, text) is not None

    def _xpuprof(self, *words: object, program: bool = False) -> Outcome:
        line = [sys.executable, "-m", "xpuprof", *map(str, words)]
        return self.start([*line, "--", *self.filled(self._program.command)] if program else line)

    def _json(self, *words: object) -> Record:
        return _last_object(self._xpuprof(*words))

    def run(self, record: Record) -> Record:
        """`xpuprof run` with its defaults, and what `info` and `check` say of it."""
        words = ("run", "--json", "--force", "--cpu", SELECTED, "-o", self._folder)
        done = self._xpuprof(*words, program=True)
        found = _last_object(done)
        if "representatives" not in found:
            raise Failed(str(found["reason"]))
        info = self._json("info", "--json", self._folder)
        launches = info["launches"]
        own = [e["wall_s"] for e in info["executions"] if e["role"] == "time"]
        return {
            "machine": " ".join(str(info["machine"][name]) for name in ("cpu", "os")),
            "cores": info["machine"]["cores"],
            "code": done.code == 0,
            "same_output": self._figureless(_before_last_line(done.output))
            == self._figureless(record["output"]),
            "run_s": done.wall_s,
            "launches": launches["seen"],
            "instrumented": launches["instrumented"],
            "uninstrumented": info.get("uninstrumented", {}),
            "slices": found["slices"],
            "representatives": len(found["representatives"]),
            "error": found["sampling_error"],
            "inner_error": found["inner_error"],
            "unmeasured_error": found["unmeasured_error"],
            "unreliable": found["unreliable"],
            "interval_s": found["interval_s"],
            "measured_s": found["measured_s"],
            "held": _held(found),
            "time_speedup": found["time_speedup"],
            "timer": median(own) / record["native_s"],
            "bytes": info["bytes"]["total"],
            "checked": self._xpuprof("check", self._folder).code,
        }

    def seeds(self, record: Record) -> Record:
        """Errors over seeds, from the same profile and times."""
        rows = []
        for seed in SEEDS:
            out = self._place / f"seed-{seed}"
            rows.append(self._json("select", self._folder, "--json", "--seed", seed, "-o", out))
        return {
            "seed_errors": [row["sampling_error"] for row in rows],
            "seed_inner_errors": [row["inner_error"] for row in rows],
            "seed_held": [_held(row) for row in rows],
        }

    def methods(self, record: Record) -> Record:
        """Every method on this run, over DRAWS seeds, at each error bound."""
        found = {}
        for bound, draws in DRAWS.items():
            words = ("--error-bound", bound, "--repeats", draws, self._folder)
            rows = self._json("compare", "--json", *words)["methods"]
            found[f"{bound:g}"] = [{name: row.get(name) for name in KEPT} for row in rows]
        return {"methods": found}

    def report(self, record: Record) -> Record:
        """The page of this run."""
        page = self._place / "report.html"
        done = self._xpuprof("report", "-q", "--force", self._folder, "-o", page)
        if done.code != 0:
            raise Failed(_last_line(done.said))
        return {"report": f"{self._program.name}/{page.name}"}

    def engine(self, name: str, words: Sequence[str], record: Record) -> Record:
        """Slowdown and memory of a profile, against a native run just before it."""
        if words[-2:] == ("--gpu", "none") and record["native_s"] >= LONG_S:
            return {}
        native = self.native()
        folder = self._place / f"profile {name}".replace(" ", "-")
        done = self._xpuprof("profile", "-q", "--force", *words, "-o", folder, program=True)
        if done.code != 0:
            raise Failed(f"exit code {done.code}: {_last_line(done.said)}")
        info = self._json("info", "--json", folder)
        wall = next(e["wall_s"] for e in info["executions"] if e["role"] == "profile")
        found = {
            "slowdown": wall / native.wall_s,
            "memory_mb": done.memory_mb,
            "right": self.passes(done),
        }
        return {"engines": record.get("engines", {}) | {name: found}}

    def again(self, record: Record) -> Record:
        """Whether a second profile, by both engines, gives the same slices and clusters."""
        chosen = [
            self._json("select", "--json", self._place / name, "-o", self._place / f"of-{name}")
            for name in ("run", f"profile-engine-{SELECTED}-and-GPU")
        ]
        marks = [
            {(r["kernel"], r["call"], r["process"]) for r in one["representatives"]}
            for one in chosen
        ]
        return {
            "again_k": [one["k"] for one in chosen],
            "again_common": len(marks[0] & marks[1]) / max(len(marks[0] | marks[1]), 1),
        }

    def _figureless(self, text: str) -> str:
        return re.sub(self._program.figures, "", text) if self._program.figures else text


def _last_object(done: Outcome) -> Record:
    """The JSON object on the last line. Raises Failed without one, or if it tells an error."""
    line = _last_line(done.output)
    try:
        found: Record = json.loads(line)
    except json.JSONDecodeError as error:
        raise Failed(f"exit code {done.code}: {_last_line(done.said)}") from error
    if "error" in found:
        raise Failed(str(found["error"]))
    return found


def _last_line(text: str) -> str:
    return next(iter(text.strip().splitlines()[::-1]), "")


def _before_last_line(text: str) -> str:
    """The program's own output: the object has a line of its own."""
    return text[: text.rstrip("\n").rfind("\n") + 1]


def _held(found: Mapping[str, Any]) -> bool | None:
    """Whether the interval holds the measured time; None without an interval."""
    low, high = found["interval_s"] or (None, None)
    if low is None or high is None:
        return None
    return bool(low <= found["measured_s"] <= high)
