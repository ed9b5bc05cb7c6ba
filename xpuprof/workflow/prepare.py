# SPDX-License-Identifier: Apache-2.0
"""Prepares a run: finds the user's program, chooses engines, checks filters, and makes the run
directory. Faults in the request are reported here, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from xpuprof.engines.choose import Engines, choose, gpu_engine
from xpuprof.engines.filters import Filters
from xpuprof.engines.gpu_tool import gpu_tool as load_beside
from xpuprof.errors import UsageError
from xpuprof.launch.ending import is_interrupt
from xpuprof.launch.execute import Program
from xpuprof.launch.program import resolve
from xpuprof.launch.ranks import own_rank
from xpuprof.launch.streams import Input
from xpuprof.trace.run_writer import RunWriter, create_run
from xpuprof.workflow.arguments import whole_number

Say = Callable[[str], None]
"""Receives notes during the work, one sentence each."""


def silently(text: str) -> None:
    """Drops a note; results keep notes."""


@dataclass
class Notes:
    """Forwards notes, and keeps them for the result."""

    say: Say
    kept: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        self.kept.append(text)
        self.say(text)


@dataclass(frozen=True)
class Prepared:
    """A program ready to run, and the run directory for its executions."""

    program: Program
    tooled: Program
    """`program` with the requested GPU tool, if any."""
    folder: Path
    writer: RunWriter
    source: Input
    """Our standard input; every execution reads it."""


def prepare(
    argv: Sequence[str],
    *,
    folder: Path,
    force: bool,
    cpu: str | None,
    gpu: str,
    filters: Filters,
    say: Say,
    gpu_tool: str | None = None,
    needs_gpu: bool = False,
    seed: int = 0,
    max_size: int | None = None,
) -> Prepared:
    """The program under the named engines; `cpu` None: for native runs only.

    Raises UsageError or EngineError: program not found, faulty filters, an engine that lacks
    something (`needs_gpu`: or no GPU engine), a folder that cannot be made.
    """
    if isinstance(argv, str | bytes):
        raise UsageError(f"the command line is a list of words, not {argv!r}")
    argv = [os.fsdecode(a) if isinstance(a, bytes | os.PathLike) else str(a) for a in argv]
    resolved = resolve(argv)
    chosen = Engines(None, gpu_engine(gpu)) if cpu is None else choose(cpu, gpu, filters, say)
    if needs_gpu and chosen.gpu is None:
        raise UsageError(
            "no GPU engine is usable here, so no kernel would be seen; run xpuprof doctor"
        )
    tool = load_beside(gpu_tool, chosen.cpu, chosen.gpu) if gpu_tool else None
    if max_size is not None:
        whole_number("max_size", max_size, 1)
    program = Program(
        resolved,
        chosen.cpu,
        chosen.gpu,
        filters,
        fallbacks=chosen.fallbacks,
        name=argv[0],
        max_size=max_size,
    )
    record = filters.record()
    kept = {"settings": record} if record else {}
    writer = create_run(
        folder,
        force=force,
        argv=list(argv),
        seed=seed,
        extra=kept,
        needed=[Path(word) for word in (resolved[0], *argv[1:]) if os.path.lexists(word)],
    )
    for note in filter(None, (filters.text(), *chosen.notes)):
        say(note)
    return Prepared(program, replace(program, gpu_tool=tool), folder, writer, Input())


@contextmanager
def recording(ready: Prepared) -> Iterator[None]:
    """While executions are recorded: an interrupt leaves a partial run that says so."""
    try:
        yield
    except BaseException as error:
        if not is_interrupt(error):
            raise
        if ready.writer.manifest["status"] == "running":
            ready.writer.finish("partial", "xpuprof was stopped before it had finished the run")
        raise KeyboardInterrupt(f"stopped; {ready.folder} keeps what was recorded") from error


def run_folder(output: str | Path | None, argv: Sequence[str]) -> Path:
    """The run directory: `output`, or xpuprof-run-<program>. If a launcher started one xpuprof per
    rank, -rank<rank> is appended."""
    named = f"xpuprof-run-{Path(argv[0]).name}" if argv else "xpuprof-run"
    folder = Path(named if output is None else output)
    rank = own_rank()
    return folder if rank is None else folder.with_name(f"{folder.name}-rank{rank}")


def refuse_within_job(what: str) -> None:
    """Raises UsageError if a launcher started us for one rank: its set-up serves one execution
    (MPI_Init connects to it once), and `what` needs several."""
    rank = own_rank()
    if rank is not None:
        raise UsageError(
            f"this is rank {rank} of a job, whose launcher serves one execution of the program, "
            f"and {what}; put xpuprof before the launcher, as in: xpuprof run -- mpirun -n 2 "
            "./app, or use profile and time --repeat 1 after it"
        )
