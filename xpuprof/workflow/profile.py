# SPDX-License-Identifier: Apache-2.0
"""One instrumented execution of the user's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpuprof.engines.filters import EVERYTHING, Filters
from xpuprof.launch import execute
from xpuprof.launch.ending import Ending, exit_doubts
from xpuprof.launch.finish import finish
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.run import Run
from xpuprof.workflow.prepare import Notes, Say, prepare, recording, run_folder, silently
from xpuprof.workflow.unseen import no_kernel


@dataclass(frozen=True)
class Profiled:
    """A recorded profile."""

    run: Run
    job: Job
    """The processes of the program that launched kernels."""
    ending: Ending
    """How the program ended; its `exit_code` should become the caller's."""
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Reasons to doubt the profile, one sentence each."""


def profile(
    argv: Sequence[str],
    *,
    output: str | Path | None = None,
    force: bool = False,
    cpu: str = "auto",
    gpu: str = "auto",
    filters: Filters = EVERYTHING,
    gpu_tool: str | None = None,
    max_size: int | None = None,
    say: Say = silently,
) -> Profiled:
    """Record the basic-block vectors of every slice, CPU and GPU.

    The program gets our standard streams. `output`: the run directory, xpuprof-run-<program> by
    default; `force` replaces an existing one. `cpu` and `gpu`: an engine, `auto` or `none`.
    `gpu_tool`: the path of a third-party tool to load as well, prefixed by `pin:` for Pin to load
    it. `max_size`: bytes of traces at which recording ends; the program goes on. Raises UsageError
    or EngineError before the program starts.
    """
    notes = Notes(say)
    ready = prepare(
        argv,
        folder=run_folder(output, argv),
        force=force,
        cpu=cpu,
        gpu=gpu,
        filters=filters,
        gpu_tool=gpu_tool,
        max_size=max_size,
        say=notes,
    )
    with recording(ready):
        ending = execute.profile(ready.writer, ready.tooled, ready.source, user=True)
        run = finish(ready.writer, ready.folder)
    assert run.profile is not None
    job = job_of(run.profile)
    doubts = exit_doubts(ending.exit_code)
    if not (ready.program.cpu or ready.program.gpu or gpu_tool):
        doubts.append("nothing was recorded, since no engine watched the program; omit --cpu none")
    opened = any(process.window and len(process.window.openings) for process in job.processes)
    if ready.program.gpu and not (opened or run.reason or job.sums.launches):
        images = [str(path) for process in job.processes for path in process.images["path"]]
        losses = run.profile.losses
        doubts.append(no_kernel(run.profile.record, losses, ready.program.argv[0], images))
    return Profiled(run, job, ending, tuple(notes.kept), tuple(doubts))
