# SPDX-License-Identifier: Apache-2.0
"""Compares a selection with native executions of the program on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from xpuprof.engines.base import Timer
from xpuprof.engines.filters import Filters
from xpuprof.errors import UsageError
from xpuprof.launch import execute
from xpuprof.launch.ending import Ending, exit_doubts
from xpuprof.launch.finish import finish
from xpuprof.scratch import scratch
from xpuprof.selection.identity import Program
from xpuprof.selection.selection import Selection
from xpuprof.trace.manifest import REDACTED
from xpuprof.validation import validate as against
from xpuprof.validation.timed import from_executions
from xpuprof.validation.validate import Validation, image_differences, input_differences
from xpuprof.workflow.arguments import one_of, whole_number
from xpuprof.workflow.noise import disturbed
from xpuprof.workflow.prepare import Notes, Say, prepare, refuse_within_job, silently
from xpuprof.workflow.repeats import timer_runs


@dataclass(frozen=True)
class Validated:
    """A validated selection."""

    ending: Ending
    """How the user's execution ended."""
    last: Ending
    """How the last execution ended."""
    validation: Validation | None
    """None if the runs were cut short."""
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Reasons to doubt the measured time, one sentence each."""
    unfinished: str = ""
    """Why there is no validation."""


def validate(
    selection: Selection | str | Path,
    argv: Sequence[str] = (),
    *,
    output: str | Path | None = None,
    force: bool = False,
    gpu: str = "auto",
    timer: Timer = "async",
    repeat: int = 5,
    allow_missing: bool = False,
    say: Say = silently,
) -> Validated:
    """Run the program natively and compare its time with the time that `selection` projects.

    Without `argv` it runs the command that the selection was recorded with, in this folder.
    Window and processes are the selection's. Without `output` the `repeat` timer runs are not kept.
    `allow_missing` omits regions that never occur and re-weights the others. Raises
    MissingRegionError, InputError for a different program, and the errors of `profile`.
    """
    chosen = selection if isinstance(selection, Selection) else Selection.read(selection)
    refuse_within_job("validate executes it several times")
    one_of("timer", timer, get_args(Timer))
    whole_number("repeat", repeat, 1)
    filters = Filters.read(chosen.identity.settings).of_timer_runs()
    notes = Notes(say)
    if not argv:
        argv = _recorded(chosen)
        recorded_in = (chosen.identity.program or Program()).directory or os.getcwd()
        where = f" (recorded in {recorded_in})" if recorded_in != os.getcwd() else ""
        notes(f"no program was given, so this runs the recorded command{where}: {shlex.join(argv)}")
        if where and "/" in argv[0] and not os.path.exists(argv[0]):
            raise UsageError(
                f"{argv[0]} does not exist here; change to {recorded_in}, or name the program "
                "after --"
            )
    with scratch() as place:
        ready = prepare(
            argv,
            folder=Path(place) / "run" if output is None else Path(output),
            force=force,
            cpu=None,
            gpu=gpu,
            filters=filters,
            needs_gpu=True,
            say=notes,
        )
        differences = [
            *image_differences(chosen, ready.program.argv),
            *input_differences(chosen),
        ]
        ending = execute.first(ready.writer, ready.program, ready.source)
        last = timer_runs(ready, ending, ending, timer, repeat)
        run = finish(ready.writer, ready.folder, last.stop)
        if not ending.undisturbed or last.stop is not None:
            return Validated(ending, last, None, tuple(notes.kept), unfinished=run.reason)
        timed = from_executions("this run", run.times)
    for sentence in exit_doubts(ending.exit_code):
        notes(sentence)
    result = against.validate(chosen, timed, allow_missing=allow_missing, differences=differences)
    doubts = (*result.doubts, *disturbed(timed.times.sum(axis=1).tolist()))
    return Validated(ending, last, result, tuple(notes.kept), doubts)


def _recorded(selection: Selection) -> list[str]:
    """The command that the selection was recorded with."""
    argv = list(selection.identity.arguments)
    if not argv or REDACTED in argv:
        raise UsageError(
            "no program was given, and the selection does not name its own; put the program after "
            "--, as in: xpuprof validate SELECTION -- ./app args"
        )
    return argv
