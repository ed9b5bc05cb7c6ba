"""xpuprof run"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.engines.choose import choose
from xpuprof.engines.filters import Filters
from xpuprof.engines.gpu_tool import gpu_tool as load_beside
from xpuprof.errors import UsageError
from xpuprof.launch.ending import Ending, end_after, end_like, exit_doubts
from xpuprof.launch.execute import Program, first, profile, time
from xpuprof.launch.finish import finish
from xpuprof.launch.program import resolve
from xpuprof.launch.streams import Input
from xpuprof.methods.registry import find
from xpuprof.report.result import as_json as result_json
from xpuprof.report.result import as_text, warnings
from xpuprof.selection.file import write_selection
from xpuprof.selection.parts import write_parts
from xpuprof.signals import signal_name
from xpuprof.trace.run import Run, create_run
from xpuprof.validation.phases import unseen_phases
from xpuprof.workflow.evaluate import evaluate
from xpuprof.workflow.select import Processes, select_run


@click.command(name="run", context_settings=options.PROGRAM_CONTEXT)
@options.output
@options.force
@options.engines
@options.filters
@options.gpu_tool
@options.timer
@options.repeat
@options.method
@options.memory_weight
@options.processes
@options.seed
@options.as_json
@options.quiet
@options.program
def command(
    output: Path | None,
    force: bool,
    cpu: str,
    gpu: str,
    filters: Filters,
    gpu_tool: str | None,
    timer: Timer,
    repeat: int,
    method: str,
    memory_weight: float | None,
    processes: Processes,
    seed: int,
    as_json: bool,
    quiet: bool,
    argv: tuple[str, ...],
) -> int:
    """Find the slices that stand for the whole program, and check them against its native time.

    Runs the program natively (this is the run whose output you see), once under the engines to
    record what every slice executes, and --repeat times natively with time stamps. Then it chooses
    representatives and compares the time that they project with the time that was measured.

    \b
    xpuprof run -- ./app args
    xpuprof run --cpu none -o RUN -- python train.py
    xpuprof run -- mpirun -n 2 ./app               each rank, and the job as a whole

    The run directory keeps everything; RUN/selection.json stands alone and works on other machines.
    With --json the object is one line, the last one behind the program's own output.
    """
    options.refuse_within_job("run executes it several times")
    resolved = resolve(argv)
    found = choose(cpu, gpu, filters, lambda text: options.note(text, quiet))
    tool = load_beside(gpu_tool, found.cpu, found.gpu) if gpu_tool else None
    program = Program(resolved, found.cpu, found.gpu, filters, fallbacks=found.fallbacks)
    find(method)  # an unknown one is said now, not after the runs
    settings = _signature(method, memory_weight, filters.memory)
    folder = options.run_folder(output, argv)
    writer = create_run(
        folder, force=force, argv=list(argv), seed=seed, extra=options.recorded(filters)
    )
    options.note(filters.text(), quiet)
    for sentence in found.notes:
        options.note(sentence, quiet)
    source = Input()

    ending = last = first(writer, program, source)
    if last.undisturbed:
        options.note("native run done; now the instrumented one (its output goes to a file)", quiet)
        # Native runs show and time the program alone: such tools print, and cost time.
        last = profile(writer, replace(program, gpu_tool=tool), source, user=False)
    for i in range(repeat):
        if last.undisturbed:
            last = time(writer, program, source, timer, i, user=False)
    run = finish(writer, folder)
    if run.profile is None or not run.times or not last.undisturbed:
        _report_unfinished(run, folder, ending, last, as_json, quiet)
        return end_after(ending, last)

    chosen = select_run(run, method, seed=seed, processes=processes, **settings)
    write_selection(chosen, folder / "selection.json")
    if processes == "each":
        write_parts(chosen, folder)
    result = evaluate(run, chosen)
    if as_json:
        options.print_json(result_json(result))
    else:
        click.echo(as_text(result))
    phases = unseen_phases(result.job.processes, run.times, chosen)
    for sentence in [*_doubts(run, ending), *phases, *warnings(result.job)]:
        options.note(sentence, quiet)
    if not as_json:
        options.note(
            f"next, here or on another machine: xpuprof validate {folder}/selection.json -- "
            f"{shlex.join(argv)}",
            quiet,
        )
    return end_like(ending)


def _signature(method: str, memory_weight: float | None, recorded: bool) -> dict[str, Any]:
    """Options of the signature; what is wrong with them is said before anything runs."""
    if memory_weight is None:
        return {}
    if not find(method).clusters:
        raise UsageError(f"--memory-weight is for clustering methods; {method} has no signature")
    if not 0.0 <= memory_weight <= 1.0:
        raise UsageError(f"--memory-weight must lie between 0 and 1, not {memory_weight:g}")
    if memory_weight > 0.0 and not recorded:
        raise UsageError("--memory-weight needs stack distances: give --memory, too")
    return {"memory_weight": memory_weight}


def _doubts(run: Run, ending: Ending) -> list[str]:
    """What speaks against the run as a whole, one sentence each."""
    found = [f"the run is {run.status}: {run.reason}"] if run.reason else []
    return [*found, *exit_doubts(ending)]


def _report_unfinished(
    run: Run, folder: Path, ending: Ending, last: Ending, as_json: bool, quiet: bool
) -> None:
    reasons = [run.reason] if run.reason else []
    if last.stop is not None:
        reasons.append(f"{signal_name(last.stop)} asked to stop")
    lacking = "no selection was made" if run.profile else "no profile and no selection were made"
    reason = "; ".join([*reasons, lacking])
    if as_json:
        options.print_json(
            {
                "run": str(folder),
                "status": run.status,
                "reason": reason,
                "exit_code": ending.exit_code,
            }
        )
    options.note(f"the run in {folder} is {run.status}: {reason}", quiet)
