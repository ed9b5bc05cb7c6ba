# SPDX-License-Identifier: Apache-2.0
"""xpuprof export"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpuprof.cli import options
from xpuprof.cli.names import FormatCommand, FormatName
from xpuprof.errors import UsageError
from xpuprof.formats.registry import all_exporters


def _address(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError as error:
        raise UsageError(f"--image-base {text}: give an address, as in 0x555555554000") from error


@click.command(name="export", cls=FormatCommand)
@click.argument("source", metavar="RUN|SELECTION", type=options.PATH)
@click.option(
    "--format", "format", required=True, type=FormatName(all_exporters), metavar="FORMAT",
    help="One of the formats below.",
)  # fmt: skip
@click.option(
    "-o", "--output", required=True, type=options.PATH, metavar="OUT",
    help="File or folder to write, see Formats.",
)  # fmt: skip
@click.option("--selection", type=options.PATH, help="Selection [default: RUN/selection.json].")
@click.option(
    "--warmup", type=click.IntRange(0), default=0, metavar="N", help="Warm-up slices per region."
)
@click.option(
    "--warm-cache", type=options.Size(), metavar="SIZE",
    help="As many warm-up slices as fill a cache of SIZE (runs with --memory).",
)  # fmt: skip
@click.option(
    "--image-base", callback=_address, metavar="ADDRESS", help="Load address of a PIE program."
)
@click.option("--kernelslist", type=options.PATH, help="Accel-Sim list of the whole run.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@options.as_json
@options.quiet
def command(source: Path, as_json: bool, quiet: bool, **how: Any) -> None:
    """Write a selection or a run in the format of a simulator or another tool.

    \b
    xpuprof export RUN --format looppoint -o app.looppoint.json
    xpuprof export app.selection --format accelsim -o traces/
    xpuprof export RUN --format chrome -o app.trace.json

    Each of several processes gets its own files: OUT/rank0, or app-rank0.json for app.json.
    """
    # Loads pandas, which --help does not need.
    from xpuprof.cli.progress import working
    from xpuprof.workflow.export import export

    with working("export", quiet):
        done = export(source, **how)
    files = [str(path) for path in done.files]
    if as_json:
        options.print_json({"format": done.format, "files": files})
        return
    more = [f"{len(files) - 4} more"] if len(files) > 4 else []
    options.note(f"wrote {', '.join(files[:4] + more)}", quiet)
    if done.cold:
        options.note("regions begin with cold caches; --warmup 1 adds the slice before each", quiet)
    if done.then:
        options.next_step(done.then, quiet)
