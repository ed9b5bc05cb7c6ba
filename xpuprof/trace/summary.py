# SPDX-License-Identifier: Apache-2.0
"""A run directory summarised in one value, for `xpuprof info`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.signals import signal_name
from xpuprof.trace.device_times import DeviceTimes, device_times
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.reader import process_folders
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES
from xpuprof.trace.sums import Sums
from xpuprof.trace.tables import Execution
from xpuprof.trace.window import WindowFacts, window_facts

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportedSlices


def no_launch(execution: Execution, sums: Sums) -> str:
    """Why an execution has no finished launch, and how many slices it has."""
    record = execution.record
    ended = not record.signal and all(process.complete for process in execution.processes)
    if execution.losses:
        why = f"No launch was recorded: {execution.losses[0]}"
    elif record.gpu_engine == "none":
        why = "No GPU engine watched the program"
    elif sums.unfinished:
        why = (
            f"The program was ended before the counts of its {sums.unfinished:,} launches were read"
        )
    elif ended:
        why = "The program launched no kernel"
    else:
        why = "The program was ended before it launched a kernel"
    part = "window" if sums.openings else "whole run"
    return f"{why}: {f'the {part} is one slice' if sums.slices else 'no slice was finished'}."


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk."""

    total: int
    events: int
    cpu: int


@dataclass(frozen=True, eq=False)
class Summary:
    """A run directory."""

    run: Run
    executions: Sequence[Execution]
    job: Job | None
    """The profile's, or the first execution's if there is no profile; None without executions."""
    slices: int
    """Slices of the job, or of the import."""
    bytes: Sizes
    imported: ImportedSlices | None = None
    times: DeviceTimes | None = None
    """Device time of each kernel; None for imports and runs without device stamps."""

    @property
    def sums(self) -> Sums:
        """Sums over the job."""
        return self.job.sums if self.job else Sums()

    @property
    def window(self) -> WindowFacts | None:
        """The window of the job."""
        return window_facts(self.job.processes) if self.job else None

    @property
    def bytes_per_launch(self) -> float | None:
        """Bytes of the job's streams per launch; None without a recorded launch."""
        if self.job is None or not self.sums.seen:
            return None
        return self.stream_bytes(self.job.execution) / self.sums.seen

    def stream_bytes(self, execution: Execution) -> int:
        """Bytes of an execution's streams."""
        return sum(
            _on_disk((part / file).stat())
            for part in process_folders(self.run.path / execution.name)
            for file in FILES.values()
            if (part / file).exists()
        )

    def as_json(self) -> dict[str, object]:
        """The object that `xpuprof info --json` prints."""
        manifest = self.run.manifest
        kernels: list[dict[str, object]] = [
            {"kernel": name, **vars(own), "share": share, **self._time_json(name)}
            for name, own, share in self.sums.kernels_by_share()
        ]
        if self.imported:
            kernels = [vars(kernel) for kernel in self.imported.kernels()]
        return {
            "run": str(self.run.path),
            "status": self.run.status,
            "reason": self.run.reason,
            **{key: manifest.get(key) for key in ("argv", "created", "machine", "clock", "seed")},
            "settings": manifest.get("settings", {}),
            "imported": manifest.get("imported"),
            "slices": self.slices,
            "window": asdict(self.window) if self.window else None,
            "launches": launches_json(self.sums),
            "kernels": kernels,
            **({"imported_metric": self.imported.time_name} if self.imported else {}),
            **(_counts_json(self.job) if self.job else {}),
            "executions": [self._execution_json(execution) for execution in self.executions],
            "bytes": vars(self.bytes) | {"per_launch": self.bytes_per_launch},
        }

    def _time_json(self, kernel: str) -> dict[str, object]:
        """Time of a kernel; `profiled_s`: slowed down by the engine."""
        if self.times is None:
            return {}
        name = "device_s" if self.times.native else "profiled_s"
        return {name: self.times.seconds.get(kernel)}

    def _execution_json(self, execution: Execution) -> dict[str, object]:
        record = execution.record
        names = ("name", "role", "status", "reason", "exit_code", "signal", "wall_s", "cpu_engine")
        return {
            **{
                name: getattr(record, name) for name in (*names, "gpu_engine", "timer", "fallbacks")
            },
            "losses": execution.losses,
            "signal_name": signal_name(record.signal) if record.signal else None,
            "processes": [
                {
                    "name": process.name,
                    "rank": process.rank,
                    "slices": process.sums.slices,
                    "launches": process.sums.seen,
                    "threads": process.sums.threads,
                    "cpu_instructions": process.sums.cpu_instructions,
                    "gpu_instructions": process.sums.gpu_instructions,
                    "closed": process.complete,
                }
                for process in execution.processes
            ],
            "bytes": self.stream_bytes(execution),
        }


def launches_json(sums: Sums) -> dict[str, object]:
    """Launches seen, by outcome."""
    names = ("seen", "instrumented", "left_out", "unfinished")
    return {name: getattr(sums, name) for name in names}


def _counts_json(job: Job) -> dict[str, object]:
    """Sums of the job; versions and units are the first process's."""
    sums, record, meta = job.sums, job.execution.record, job.processes[0].meta
    memory: dict[str, object] = {}
    if sums.cpu_lines:
        memory["cpu"] = vars(sums.cpu_lines)
    if device := sums.device:
        shown = {name: n for name, n in vars(device).items() if name != "recorded"}
        memory["device"] = {**shown, "share": device.share}
    return {
        "uninstrumented": sums.uninstrumented,
        "threads": sums.threads,
        "warps": sums.warps,
        "processes": [process.name for process in job.processes],
        "memory": memory,
        "cpu": {
            "engine": record.cpu_engine,
            "version": meta.get("cpu_engine_version", ""),
            "hidden_isa": meta.get("cpu_hidden_isa", ""),
            "native_start_up": meta.native_start_up,
            "instructions": sums.cpu_instructions,
            "threads": sums.threads,
            "images": sums.images,
            "blocks": sums.cpu_blocks,
        },
        "gpu": {
            "engine": record.gpu_engine,
            "version": meta.get("engine_version", ""),
            "count_unit": meta.get("count_unit", ""),
            "warp_size": meta.warp_size,
            "instructions": sums.gpu_instructions,
            "warps": sums.warps,
            "blocks": sums.gpu_blocks,
            "warp_vectors": sums.warp_vectors,
            "grids": sums.grids,
        },
    }


def summarize(run: Run, timed: Sequence[Path] = ()) -> Summary:
    """Sum up the profile, or the first execution if there is none. `timed`: folders of timer runs
    whose device times are preferred to the run's own. Raises TraceError."""
    executions, imported = run.executions, None
    if (run.path / "imported").is_dir():
        from xpuprof.trace.imported import ImportedSlices  # loads SciPy

        imported = ImportedSlices(run.path)
    profiles = [execution for execution in executions if execution.role == "profile"]
    shown = next(iter([*profiles, *executions]), None)
    job = job_of(shown) if shown else None
    slices = job.sums.slices if job else imported.rows if imported else 0
    others = [e for folder in timed for e in Run.open(folder).executions]
    times = device_times(others) or device_times(executions)
    return Summary(run, executions, job, slices, _sizes(run.path), imported, times)


def _on_disk(status: os.stat_result) -> int:
    """Allocated bytes of a file; an unfinished stream ends in a hole."""
    return min(status.st_size, status.st_blocks * 512)


def _sizes(run: Path) -> Sizes:
    sizes = dict.fromkeys(FILES.values(), 0)
    total = 0
    for folder, _, files in os.walk(run):
        for file in files:
            with contextlib.suppress(OSError):  # a run in progress replaces its manifest
                size = _on_disk(os.lstat(os.path.join(folder, file)))
                total += size
                if file in sizes:
                    sizes[file] += size
    return Sizes(total, sizes["events.xpt"], sizes["cpu.xpt"])
