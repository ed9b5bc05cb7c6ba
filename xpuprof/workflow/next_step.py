# SPDX-License-Identifier: Apache-2.0
"""The next command, as a line to copy: of one for a run directory, from what it holds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from xpuprof.engines.filters import Filters
from xpuprof.trace.manifest import REDACTED
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Execution


def command(*words: object) -> str:
    """An xpuprof command, quoted for a shell. A path that begins with a dash is no option."""
    return shlex.join(["xpuprof", *map(_word, words)])


def _word(word: object) -> str:
    text = str(word)
    return f"./{text}" if isinstance(word, PurePath) and text.startswith("-") else text


def of_program(name: str, *words: object, argv: Sequence[str]) -> str:
    """A command that executes the program again; where its arguments were not recorded
    (`--redact`), with a word that stands for them."""
    if REDACTED in argv:
        argv = [*argv[:1], "ARGS"]
    return command(name, *words, "--", *(argv or ["./app", "args"]))


def of_run(run: Run) -> str:
    """Choose slices, show those that were chosen, or record what is missing."""
    if run.status == "running":
        return f"{command('info', run.path)} (once the recording has ended)"
    if run.manifest.get("imported"):
        return _chosen(run)
    if _cut_short(run):
        return _again("run", run)
    if ended := _ended_early(run):
        return _again("run" if ended.role == "first" else ended.role, run)
    recorded = run.profile or next(iter(run.times), None)
    if recorded is None or (not _launches(recorded) and recorded.record.gpu_engine != "none"):
        return command("doctor")
    return _record(run) if run.profile is None else _chosen(run)


def _cut_short(run: Run) -> bool:
    """Whether `xpuprof run` ended before the profile, although the program launches kernels.
    With settings (a window, filters) it may have ended because of them."""
    first = next(iter(run.executions), None)
    return bool(
        first
        and first.name == "first"
        and _launches(first)
        and not (run.profile and _launches(run.profile) and not _stopped(run.profile, first))
        and not run.times  # `validate` starts like `run`, and its times are kept
        and not run.manifest.get("settings")
    )


def _stopped(profile: Execution, first: Execution) -> bool:
    """Whether a signal ended the profile that did not end the program before."""
    return profile.record.signal is not None and first.record.signal is None


def _ended_early(run: Run) -> Execution | None:
    """The execution of the user's that a signal ended before its first launch: the program ended by
    itself, so no engine would see more."""
    first = next(iter(run.executions), None)
    return first if first and first.record.signal and not _launches(first) else None


def _again(name: str, run: Run) -> str:
    """The command that records the run again."""
    argv = run.manifest["argv"]
    return of_program(name, "--force", "-o", run.path, *_filters(run), argv=argv)


def _filters(run: Run) -> list[str]:
    """The filters that it was recorded with, as options."""
    return Filters.read(run.manifest.get("settings", {})).options()


def _launches(execution: Execution) -> int:
    """Launches of all its processes."""
    return sum(process.sums.of_launches for process in execution.processes)


def _chosen(run: Run) -> str:
    if (run.path / "selection.json").exists():
        return command("report", run.path)
    return command("select", run.path)


def _record(run: Run) -> str:
    profile = of_program("profile", "-o", "P", *_filters(run), argv=run.manifest["argv"])
    return f"{profile}, then: {command('select', 'P', '--times', run.path)}"
