# SPDX-License-Identifier: Apache-2.0
"""The next command, as a line to copy: of one for a run directory, from what it holds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from xpuprof.trace.processes import job_of
from xpuprof.trace.run import Run


def command(*words: object) -> str:
    """An xpuprof command, quoted for a shell."""
    return shlex.join(["xpuprof", *map(str, words)])


def of_run(run: Run) -> str:
    """Choose slices, show those that were chosen, or record what is missing."""
    recorded = run.profile
    if recorded is None and not run.manifest.get("imported"):
        return _record(run)
    if recorded and not job_of(recorded).sums.of_launches and recorded.record.gpu_engine != "none":
        return command("doctor")
    if (run.path / "selection.json").exists():
        return command("report", run.path)
    return command("select", run.path)


def _record(run: Run) -> str:
    program: Sequence[str] = run.manifest["argv"] or ["./app", "args"]
    if not run.times:
        return command("doctor")
    return (
        f"{command('profile', '-o', 'P', '--', *program)}, then: "
        f"{command('select', 'P', '--times', run.path)}"
    )
