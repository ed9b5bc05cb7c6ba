"""xpuprof export"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from xpuprof.cli import options
from xpuprof.errors import InputError, UsageError
from xpuprof.selection import parts
from xpuprof.selection.file import read_selection
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.processes import job_of, keys_of, matched
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Execution, Process


@dataclass
class Source:
    """What is exported: a run directory with its selection, or a selection file alone."""

    path: Path
    selection_path: Path | None
    number: int | None = None
    """Of several processes, the one that is exported."""

    @cached_property
    def run(self) -> Run:
        """The run directory."""
        if self.path.is_file():
            raise UsageError(
                f"{self.path} is a selection alone; this format needs the run that it was made from"
            )
        return Run.open(self.path)

    @cached_property
    def selection(self) -> Selection:
        """The selection: --selection, the file itself, or the run's own; of `number` its part."""
        whole = read_selection(self._selection_file())
        return whole if self.number is None else parts.part(whole, self.number)

    @property
    def selection_if_any(self) -> Selection | None:
        """As `selection`; None for a run that has none."""
        known = self.selection_path or self._selection_file().exists()
        return self.selection if known else None

    @property
    def process(self) -> Process:
        """The profiled process that the selection is of."""
        if self.run.profile is None:
            raise InputError(f"{self.path} holds no profile; make one with `xpuprof profile`")
        job = job_of(self.run.profile)
        place = matched(keys_of(self.selection.identity), job.keys) or [0]
        if place[0] is None or (job.several and len(place) > 1):
            raise InputError(
                f"{self.path} has no such process as the selection's; export with the run that the "
                "selection was made from"
            )
        return job.processes[place[0]]

    @property
    def timed(self) -> Execution:
        """A timer run, else the profile."""
        executions = [*self.run.times, *([self.run.profile] if self.run.profile else [])]
        if not executions:
            raise InputError(f"{self.path} holds no execution to show")
        return executions[0]

    def _selection_file(self) -> Path:
        if self.selection_path:
            return self.selection_path
        return self.path if self.path.is_file() else self.path / "selection.json"


@dataclass(frozen=True)
class Options:
    """What some formats take beside the source."""

    force: bool
    warmup: int
    image_base: int | None
    kernelslist: Path | None


def _module(name: str) -> Any:
    return import_module(f"xpuprof.formats.exporters.{name}")


PER_PROCESS = ("simpoint", "pinpoints", "looppoint", "accelsim", "macsim", "zsim", "nvbit")
"""Formats of one process: of several, each gets files of its own."""
FOLDERS = ("accelsim", "nvbit")
CPU_FORMATS = ("simpoint", "pinpoints", "looppoint", "zsim")
WITH_ADDRESSES = ("pinpoints", "looppoint")
"""Formats that mark regions by addresses and counts, warm-up too."""

Write = Callable[[Source, Path, Options], "list[Path]"]

FORMATS: dict[str, tuple[str, Write]] = {
    "simpoint": (
        "OUT.simpoints, .weights and .labels",
        lambda s, out, o: _module("simpoint").write_simpoints(s.selection, out, force=o.force),
    ),
    "pinpoints": (
        "OUT.icount.csv and OUT.pc.csv, PinPoints regions",
        lambda s, out, o: _module("pinpoints").write(
            s.selection, s.process, out, o.force, o.warmup, o.image_base
        ),
    ),
    "looppoint": (
        "OUT, LoopPoint JSON for gem5",
        lambda s, out, o: _module("looppoint").write(
            s.selection, s.process, out, o.force, o.warmup, o.image_base
        ),
    ),
    "accelsim": (
        "OUT/kernelslist.g, weights.csv, tracer.env",
        lambda s, out, o: _module("accelsim").write(s.selection, out, o.force, o.kernelslist),
    ),
    "macsim": (
        "OUT, sampled kernels for MacSim's tracer",
        lambda s, out, o: _module("macsim").write(s.selection, out, o.force),
    ),
    "zsim": (
        "OUT, ffiPoints for zsim",
        lambda s, out, o: _module("zsim").write(s.selection, s.process, out, o.force),
    ),
    "nvbit": (
        "OUT/all.env and region-N.env, kernel ranges of NVBit tools",
        lambda s, out, o: _module("nvbit_ranges").write(s.selection, out, o.force),
    ),
    "chrome": (
        "OUT, Chrome/Perfetto trace of the run",
        lambda s, out, o: _module("chrome_trace").write(s.timed, s.selection_if_any, out, o.force),
    ),
    "ldv": (
        "OUT.device.ldv and OUT.cpu.ldv, stack distances by slice",
        lambda s, out, o: _module("ldv").write(s.process, out, o.force),
    ),
    "sqlite": (
        "OUT, every table",
        lambda s, out, o: _module("sqlite").write(s.run, s.selection_if_any, out, o.force),
    ),
    "parquet": (
        "OUT/<table>.parquet, every table",
        lambda s, out, o: _module("parquet").write(s.run, s.selection_if_any, out, o.force),
    ),
}


def _targets(
    source: Source, name: str, output: Path, settings: Options
) -> list[tuple[Source, Path]]:
    """What is written where: one file, or of several processes one for each that has regions."""
    whole = source.selection_if_any if name in PER_PROCESS else None
    if whole is None or len(whole.layout.lengths) == 1:
        return [(source, output)]
    if settings.kernelslist:
        raise UsageError(
            "--kernelslist is of one process; select with --processes each and export the "
            "selection of that process"
        )
    found = []
    for number, process in enumerate(whole.identity["processes"]):
        own = [r for r in whole.representatives if r.process == number]
        if any(name in CPU_FORMATS or r.end.kernel != EXIT_KERNEL for r in own):
            target = _named(output, str(process["label"]), name in FOLDERS)
            found.append((replace(source, number=number), target))
    return found


def _named(output: Path, label: str, folder: bool) -> Path:
    """OUT/rank0 of a folder, app-rank0.json of app.json."""
    if folder:
        return output / label
    stem, dot, suffix = output.name.partition(".")
    return output.with_name(f"{stem}-{label}{dot}{suffix}")


def _refuse_unused(
    name: str, warmup: int, image_base: int | None, kernelslist: Path | None
) -> None:
    """UsageError for an option that the format does not take."""
    for option, given, takers in (
        ("--warmup", warmup, WITH_ADDRESSES),
        ("--image-base", image_base is not None, WITH_ADDRESSES),
        ("--kernelslist", kernelslist, ("accelsim",)),
    ):
        if given and name not in takers:
            raise UsageError(
                f"{option} is for {' and '.join(takers)}; leave it away with --format {name}"
            )


def _address(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError as error:
        raise UsageError(f"--image-base {text}: give an address, as in 0x555555554000") from error


@click.command(
    name="export",
    epilog="\b\nFormats:\n" + "\n".join(f"  {n:10} {t}" for n, (t, _) in FORMATS.items()),
)
@click.argument("source", metavar="RUN|SELECTION", type=click.Path(path_type=Path))
@click.option("--format", "name", required=True, type=click.Choice(list(FORMATS)), metavar="FORMAT")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), metavar="OUT",
    help="File or folder to write, as the format says.",
)  # fmt: skip
@click.option(
    "--selection", type=click.Path(path_type=Path), help="Selection [default: RUN/selection.json]."
)
@click.option("--warmup", type=click.IntRange(0), default=0, metavar="N", help="Slices of warm-up.")
@click.option(
    "--image-base", callback=_address, metavar="ADDRESS", help="Where a PIE program is loaded."
)
@click.option(
    "--kernelslist", type=click.Path(path_type=Path), help="Accel-Sim list of the whole run."
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@options.as_json
@options.quiet
def command(
    source: Path,
    name: str,
    output: Path,
    selection: Path | None,
    warmup: int,
    image_base: int | None,
    kernelslist: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a selection or a run in the form that a simulator or another tool reads.

    \b
    xpuprof export RUN --format looppoint -o app.looppoint.json
    xpuprof export app.selection --format accelsim -o traces/
    xpuprof export RUN --format chrome -o app.trace.json

    Of several processes each gets its files: OUT/rank0, or app-rank0.json for app.json.
    """
    if not source.exists():
        raise UsageError(f"{source} does not exist; check its path")
    _refuse_unused(name, warmup, image_base, kernelslist)
    write = FORMATS[name][1]
    settings = Options(force, warmup, image_base, kernelslist)
    paths = [
        path
        for one, target in _targets(Source(source, selection), name, output, settings)
        for path in write(one, target, settings)
    ]
    if as_json:
        options.print_json({"format": name, "files": [str(path) for path in paths]})
    else:
        shown = [str(path) for path in paths[:4]]
        more = [f"{len(paths) - 4} more"] if len(paths) > 4 else []
        options.note(f"wrote {', '.join(shown + more)}", quiet)
