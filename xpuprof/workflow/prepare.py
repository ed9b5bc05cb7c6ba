# SPDX-License-Identifier: Apache-2.0
"""Makes the user's program ready to run: finds it, chooses engines, checks filters, and makes the
run directory. What is wrong with the request is said here, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from xpuprof.engines.choose import Engines, choose, gpu_engine
from xpuprof.engines.filters import Filters
from xpuprof.engines.gpu_tool import gpu_tool as load_beside
from xpuprof.errors import UsageError
from xpuprof.launch.execute import Program
from xpuprof.launch.program import resolve
from xpuprof.launch.ranks import own_rank
from xpuprof.launch.streams import Input
from xpuprof.trace.run import RunWriter, create_run

Say = Callable[[str], None]
"""Receives notes while the work is under way, one sentence each."""


def silently(text: str) -> None:
    """Drops notes; results keep them."""


@dataclass
class Notes:
    """Passes notes on, and keeps them for the result."""

    say: Say
    kept: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        self.kept.append(text)
        self.say(text)


@dataclass(frozen=True)
class Prepared:
    """A program that is ready to run, and the run directory that its executions fill."""

    program: Program
    tooled: Program
    """The same with the GPU tool that was asked for; without one, as `program`."""
    folder: Path
    writer: RunWriter
    source: Input
    """Our standard input, which every execution reads."""


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
) -> Prepared:
    """The program under the engines of those names; `cpu` None: for native runs alone.

    Raises UsageError or EngineError: no such program, what is wrong with the filters, what an
    engine lacks (`needs_gpu`: or that there is none), a folder that cannot be made.
    """
    resolved = resolve(argv)
    chosen = Engines(None, gpu_engine(gpu)) if cpu is None else choose(cpu, gpu, filters, say)
    if needs_gpu and chosen.gpu is None:
        raise UsageError(
            "no GPU engine is usable here, so no kernel would be seen; run xpuprof doctor"
        )
    tool = load_beside(gpu_tool, chosen.cpu, chosen.gpu) if gpu_tool else None
    program = Program(
        resolved, chosen.cpu, chosen.gpu, filters, fallbacks=chosen.fallbacks, name=argv[0]
    )
    record = filters.record()
    kept = {"settings": record} if record else {}
    writer = create_run(folder, force=force, argv=list(argv), seed=seed, extra=kept)
    for note in filter(None, (filters.text(), *chosen.notes)):
        say(note)
    return Prepared(program, replace(program, gpu_tool=tool), folder, writer, Input())


def run_folder(output: str | Path | None, argv: Sequence[str]) -> Path:
    """The run directory: the one that was named, or xpuprof-run-<program>. Where a launcher started
    one of us for each rank, each has its own: -rank<rank> is added."""
    named = f"xpuprof-run-{Path(argv[0]).name}" if argv else "xpuprof-run"
    folder = Path(named if output is None else output)
    rank = own_rank()
    return folder if rank is None else folder.with_name(f"{folder.name}-rank{rank}")


def refuse_within_job(what: str) -> None:
    """For work that executes the program several times. Raises UsageError where a launcher started
    us for a rank: what it set up serves one execution (MPI_Init connects to it once)."""
    rank = own_rank()
    if rank is not None:
        raise UsageError(
            f"this is rank {rank} of a job, whose launcher serves one execution of the program, "
            f"and {what}; put xpuprof in front of the launcher, as in: xpuprof run -- "
            "mpirun -n 2 ./app, or use profile and time --repeat 1 behind it"
        )
