# SPDX-License-Identifier: Apache-2.0
"""xpuprof demo"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.cli.run import command as run
from xpuprof.engines.native import native_file, unbuilt
from xpuprof.errors import EngineError

PROGRAM = "demo/particles"


@click.command(name="demo")
@options.output
@options.force
@options.quiet
@click.pass_context
def command(context: click.Context, output: Path | None, force: bool, quiet: bool) -> object:
    """Run the whole method on an example, to see what it gives and that this machine supports it.

    The example computes particle dynamics on the CPU and on an OpenCL device. Its source is
    examples/particles in the repository.

    \b
    xpuprof demo
    xpuprof demo -o DIR
    """
    program = str(native_file(PROGRAM))
    if missing := unbuilt(PROGRAM):
        raise EngineError(
            f"this installation lacks {', '.join(missing)}; install an OpenCL loader to link with "
            "(Debian, Ubuntu: `apt-get install ocl-icd-opencl-dev`), then install xpuprof again"
        )
    words = ["--gpu", "opencl", *(["--force"] if force else []), *(["-q"] if quiet else [])]
    words += ["-o", str(output)] if output else []
    with run.make_context("run", [*words, "--", program], parent=context) as own:
        return run.invoke(own)
