# SPDX-License-Identifier: Apache-2.0
"""The source of an export: a run directory with its selection, or only a selection file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xpuprof.errors import InputError, UsageError
from xpuprof.formats.format import ExportOptions
from xpuprof.selection import parts
from xpuprof.selection.origin import require_origin
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.manifest import MANIFEST
from xpuprof.trace.processes import job_of, matched
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Execution, Process
from xpuprof.trace.warmup import warmup


@dataclass
class ExportSource:
    """`path`: the run directory or the selection file. `number`: the process to export, if there
    are several. Properties that the source lacks raise an error."""

    path: Path
    selection_path: Path | None = None
    number: int | None = None

    @cached_property
    def run(self) -> Run:
        """The run directory."""
        if self.path.is_file():
            raise UsageError(
                f"{self.path} is only a selection file; this format needs the run "
                "that it was made from"
            )
        return Run.open(self.path)

    @cached_property
    def selection(self) -> Selection:
        """The given selection, the file itself, or the run's own; with `number`, the part of that
        process. Raises InputError if it is another run's."""
        chosen = Selection.read(self.selection_file())
        if self.number is not None:
            chosen = parts.part(chosen, self.number)
        if self.selection_path and (self.path / MANIFEST).exists():
            require_origin(chosen, self.run)
        return chosen

    @property
    def selection_if_any(self) -> Selection | None:
        """Like `selection`; None for a run without one."""
        known = self.selection_path or self.selection_file().exists()
        return self.selection if known else None

    @property
    def process(self) -> Process:
        """The profiled process that the selection describes; without one, that of `number`."""
        if self.run.manifest.get("imported"):
            raise InputError(
                f"{self.path} was imported; this format needs the code that a recorded run executed"
            )
        if self.run.profile is None:
            raise InputError(f"{self.path} holds no profile; make one with `xpuprof profile`")
        job = job_of(self.run.profile)
        if self.selection_if_any is None:
            return job.processes[self.number or 0]
        place = matched(self.selection.identity.processes, job.keys) or [0]
        if place[0] is None or (job.several and len(place) > 1):
            raise InputError(
                f"{self.path} does not have the selection's process; export with the run that the "
                "selection was made from"
            )
        return job.processes[place[0]]

    def warmup(self, options: ExportOptions, *, device: bool) -> Mapping[int, int]:
        """Slices to simulate before each chosen one, by its number."""
        chosen = [int(r.slice) for r in self.selection.representatives]
        if options.warm_cache:
            return warmup(self.process, device, chosen, options.warm_cache)
        return dict.fromkeys(chosen, options.warmup)

    @property
    def timed(self) -> Execution:
        """A timer run, else the profile."""
        executions = [*self.run.times, *([self.run.profile] if self.run.profile else [])]
        if not executions:
            raise InputError(f"{self.path} holds no execution to show")
        return executions[0]

    def by_process(self, kernels_only: bool) -> list[tuple[str, ExportSource]]:
        """(label, source) of each process that has regions (with a kernel, for `kernels_only`), or
        of each profiled one if there is no selection; empty if there is only one."""
        whole = self.selection_if_any
        if whole is None and self.run.profile is not None:
            keys = job_of(self.run.profile).keys
            parts = [(key.label, replace(self, number=n)) for n, key in enumerate(keys)]
            return parts if len(parts) > 1 else []
        if whole is None or len(whole.layout.lengths) == 1:
            return []
        found = []
        for number, process in enumerate(whole.identity.processes):
            own = [r for r in whole.representatives if r.process == number]
            if any(not kernels_only or r.end.kernel != EXIT_KERNEL for r in own):
                found.append((process.label, replace(self, number=number)))
        return found

    def selection_file(self) -> Path:
        """The given selection file, the source itself, or that of the run."""
        if self.selection_path:
            return self.selection_path
        return self.path if self.path.is_file() else self.path / "selection.json"
