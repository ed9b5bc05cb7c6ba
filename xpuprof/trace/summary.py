# SPDX-License-Identifier: Apache-2.0
"""A run directory summarised in one value, for `xpuprof info`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pandas as pd

from xpuprof.signals import signal_name
from xpuprof.trace.digest import DeviceAccesses, Digest, ExecutionDigest, KernelSums, digests_of
from xpuprof.trace.reader import process_folders
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES
from xpuprof.trace.tables import Process
from xpuprof.trace.window import WindowFacts

NO_LAUNCH = "The program launched no kernel: the whole run is one slice."
NO_LAUNCH_YET = "The program was ended before it launched a kernel: the whole run is one slice."
NO_ENGINE = "No GPU engine watched the program: the whole run is one slice."
NOT_READ = "the process ended before the counts were read"


def no_launch(engines: bool, ended: bool, losses: Sequence[str]) -> str:
    """Why a run has only one slice. `engines`: a GPU engine observed it; `ended`: it ended in
    order."""
    if losses:
        return f"No launch was recorded: {losses[0]}."
    if not engines:
        return NO_ENGINE
    return NO_LAUNCH if ended else NO_LAUNCH_YET


@dataclass(frozen=True)
class Launches:
    """Launches seen, by outcome."""

    seen: int = 0
    instrumented: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class KernelRow:
    """The launches of one kernel; `share`: of the device's instructions."""

    kernel: str
    calls: int
    instrumented: int
    warps: int
    instructions: int
    share: float


@dataclass(frozen=True)
class CpuSide:
    """Counts of the CPU engine."""

    engine: str
    version: str
    hidden_isa: str
    instructions: int
    threads: int
    images: int
    blocks: int


@dataclass(frozen=True)
class GpuSide:
    """Counts of the GPU engine."""

    engine: str
    version: str
    count_unit: str
    warp_size: int
    instructions: int
    warps: int
    blocks: int
    warp_vectors: int
    grids: int


@dataclass(frozen=True)
class CpuLines:
    """Cache lines touched by the CPU, and how many were new."""

    lines: int
    cold: int


@dataclass(frozen=True)
class DeviceLines:
    """Device accesses whose stack distances were recorded; `share`: of all accesses."""

    launches: int
    in_part: int
    accesses: int
    lines: int
    cold: int
    beyond: int
    forgot: int
    share: float


@dataclass(frozen=True)
class Memory:
    """Facts on stack distances; empty without --memory."""

    cpu: CpuLines | None = None
    device: DeviceLines | None = None


@dataclass(frozen=True)
class Counts:
    """Sums over one execution's processes; versions and units are the first process's."""

    slices: int
    window: WindowFacts | None
    launches: Launches
    uninstrumented: Mapping[str, int]
    """Unintended uninstrumented launches, by reason."""
    kernels: tuple[KernelRow, ...]
    threads: int
    warps: int
    processes: tuple[str, ...]
    memory: Memory
    cpu: CpuSide
    gpu: GpuSide


@dataclass(frozen=True)
class ProcessRow:
    """One process of an execution; `closed`: its streams were closed."""

    name: str
    rank: int | None
    slices: int
    launches: int
    threads: int
    cpu_instructions: int
    gpu_instructions: int
    closed: bool


@dataclass(frozen=True)
class ExecutionRow:
    """One execution of the program."""

    name: str
    role: str
    status: str
    reason: str
    exit_code: int | None
    signal: int | None
    wall_s: float | None
    cpu_engine: str
    gpu_engine: str
    timer: str
    fallbacks: tuple[str, ...]
    losses: tuple[str, ...]
    """Recording losses, one sentence each."""
    signal_name: str | None
    processes: tuple[ProcessRow, ...]
    bytes: int


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk; `per_launch`: of the described execution."""

    total: int
    events: int
    cpu: int
    per_launch: float


@dataclass(frozen=True)
class Summary:
    """A run directory. Machine, clock, settings and source are entries of the manifest."""

    run: str
    status: str
    reason: str
    argv: tuple[str, ...]
    created: str
    machine: Mapping[str, object]
    clock: Mapping[str, object]
    seed: int | None
    settings: Mapping[str, object]
    imported: Mapping[str, object] | None
    slices: int
    """Counts of the described execution, or of the import."""
    counts: Counts | None
    """The profile's, or the first execution's if there is no profile; None without executions."""
    executions: tuple[ExecutionRow, ...]
    bytes: Sizes

    @property
    def launches(self) -> Launches:
        """The launches of the described execution."""
        return self.counts.launches if self.counts else Launches()

    def as_json(self) -> dict[str, object]:
        """The object that `xpuprof info --json` prints, with the counts at top level."""
        found = asdict(self)
        counts = found.pop("counts") or {"window": None, "launches": asdict(Launches())}
        memory = counts.get("memory", {})
        for side in [side for side, known in memory.items() if known is None]:
            del memory[side]
        return {"kernels": [], **found, **counts}


def summarize(run: Run) -> Summary:
    """Sum up the profile, or the first execution if there is none; processes with launches are
    added up. Raises TraceError."""
    manifest = run.manifest
    executions = digests_of(run)
    slices, counts, per_launch = 0, None, 0.0
    if (run.path / "imported").is_dir():
        from xpuprof.trace.imported import ImportedSlices  # loads SciPy

        slices = ImportedSlices(run.path).rows
    if shown := _shown(executions):
        working = [process for process in shown.processes if process.launches]
        most = max(shown.processes, key=lambda process: process.cpu_instructions)
        counts = _counts(shown.record, working or [most])
        slices = counts.slices
        per_launch = _stream_bytes(run.path / shown.record.name) / max(counts.launches.seen, 1)
    return Summary(
        run=str(run.path),
        status=run.status,
        reason=run.reason,
        argv=tuple(manifest.get("argv", ())),
        created=manifest.get("created", ""),
        machine=manifest["machine"],
        clock=manifest["clock"],
        seed=manifest.get("seed"),
        settings=manifest.get("settings", {}),
        imported=manifest.get("imported"),
        slices=slices,
        counts=counts,
        executions=tuple(_execution(run.path, execution) for execution in executions),
        bytes=_sizes(run.path, per_launch),
    )


def _shown(executions: Sequence[ExecutionDigest]) -> ExecutionDigest | None:
    """The profile, else the first execution."""
    profiles = [e for e in executions if e.record.role == "profile"]
    return next(iter([*profiles, *executions]), None)


def _counts(record: ExecutionRecord, processes: list[Digest]) -> Counts:
    def total(name: str) -> int:
        return sum(int(getattr(process, name)) for process in processes)

    meta = processes[0].meta
    return Counts(
        slices=total("slices"),
        window=_window(processes),
        launches=Launches(total("seen"), total("instrumented"), total("left_out")),
        uninstrumented=_reasons(processes),
        kernels=_kernels(processes),
        threads=total("threads"),
        warps=total("warps"),
        processes=tuple(process.name for process in processes),
        memory=_memory(
            [process.cpu_lines for process in processes if process.cpu_lines],
            [process.device for process in processes if process.device],
        ),
        cpu=CpuSide(
            engine=record.cpu_engine,
            version=meta.get("cpu_engine_version", ""),
            hidden_isa=meta.get("cpu_hidden_isa", ""),
            instructions=total("cpu_instructions"),
            threads=total("threads"),
            images=total("images"),
            blocks=total("cpu_blocks"),
        ),
        gpu=GpuSide(
            engine=record.gpu_engine,
            version=meta.get("engine_version", ""),
            count_unit=meta.get("count_unit", ""),
            warp_size=meta.warp_size,
            instructions=total("gpu_instructions"),
            warps=total("warps"),
            blocks=total("gpu_blocks"),
            warp_vectors=total("warp_vectors"),
            grids=total("grids"),
        ),
    )


def _window(processes: Sequence[Digest]) -> WindowFacts | None:
    """See `window.window_facts`."""
    clipped = [process for process in processes if process.window]
    if not clipped:
        return None
    return WindowFacts(
        spec=clipped[0].window,
        openings=sum(process.openings for process in clipped),
        of_slices=sum(process.of_slices for process in clipped),
        of_launches=sum(process.of_launches for process in clipped),
        ended=any("ended" in process.meta for process in clipped),
    )


def memory_summary(processes: Sequence[Process]) -> Memory:
    """Facts on the processes' stack distances."""
    cpu = [process.distances.count for process in processes if process.distances is not None]
    devices = [p.device_distances for p in processes if p.device_distances is not None]
    return _memory(
        [(int(count.sum()), int(count[:, -1].sum())) for count in cpu],
        [
            DeviceAccesses(
                launches=len(device.launch),
                in_part=int((device.recorded < device.accesses).sum()),
                accesses=int(device.accesses.sum()),
                recorded=int(device.recorded.sum()),
                lines=int(device.count.sum()),
                cold=int(device.count[:, -1].sum()),
                beyond=int(device.beyond.sum()),
                forgot=int(device.forgot.sum()),
            )
            for device in devices
        ],
    )


def _memory(cpu: Sequence[tuple[int, int]], devices: Sequence[DeviceAccesses]) -> Memory:
    lines = CpuLines(*(sum(numbers) for numbers in zip(*cpu, strict=True))) if cpu else None
    if not devices:
        return Memory(lines)
    sums = {f.name: sum(getattr(d, f.name) for d in devices) for f in fields(DeviceAccesses)}
    recorded, accesses = sums.pop("recorded"), sums["accesses"]
    return Memory(lines, DeviceLines(**sums, share=recorded / accesses if accesses else 1.0))


def _kernels(processes: Sequence[Digest]) -> tuple[KernelRow, ...]:
    """Kernels by share of the device's instructions, then by calls."""
    total = max(sum(process.gpu_instructions for process in processes), 1)
    found: dict[str, KernelSums] = {}
    for process in processes:
        for name, sums in process.kernels.items():
            row = found.setdefault(name, KernelSums())
            for column, value in vars(sums).items():
                setattr(row, column, getattr(row, column) + value)
    rows = [
        KernelRow(name, **vars(sums), share=sums.instructions / total)
        for name, sums in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.instructions, -row.calls, row.kernel)))


def _reasons(processes: Sequence[Digest]) -> dict[str, int]:
    """Unintended uninstrumented launches by reason, most frequent first."""
    found: dict[str, int] = {}
    for process in processes:
        for reason, number in process.reasons.items():
            found[reason or NOT_READ] = found.get(reason or NOT_READ, 0) + number
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def reasons_of(launches: pd.DataFrame) -> dict[str, int]:
    """Unintended uninstrumented launches, by reason."""
    wanted = launches["inside"].astype(bool) & ~launches["left_out"].astype(bool)
    reasons = launches["reason"][wanted & ~launches["instrumented"].astype(bool)]
    return {str(reason) or NOT_READ: int(n) for reason, n in reasons.value_counts().items()}


def _execution(run: Path, execution: ExecutionDigest) -> ExecutionRow:
    record = execution.record
    return ExecutionRow(
        name=record.name,
        role=record.role,
        status=record.status,
        reason=record.reason,
        exit_code=record.exit_code,
        signal=record.signal,
        wall_s=record.wall_s,
        cpu_engine=record.cpu_engine,
        gpu_engine=record.gpu_engine,
        timer=record.timer,
        fallbacks=record.fallbacks,
        losses=execution.losses,
        signal_name=signal_name(record.signal) if record.signal else None,
        processes=tuple(
            ProcessRow(
                name=process.name,
                rank=process.meta.rank,
                slices=process.slices,
                launches=process.seen,
                threads=process.threads,
                cpu_instructions=process.cpu_instructions,
                gpu_instructions=process.gpu_instructions,
                closed=process.complete,
            )
            for process in execution.processes
        ),
        bytes=_stream_bytes(run / record.name),
    )


def _on_disk(status: os.stat_result) -> int:
    """Allocated bytes of a file; an unfinished stream ends in a hole."""
    return min(status.st_size, status.st_blocks * 512)


def _stream_bytes(folder: Path) -> int:
    return sum(
        _on_disk((part / file).stat())
        for part in process_folders(folder)
        for file in FILES.values()
        if (part / file).exists()
    )


def _sizes(run: Path, per_launch: float) -> Sizes:
    sizes = dict.fromkeys(FILES.values(), 0)
    total = 0
    for folder, _, files in os.walk(run):
        for file in files:
            with contextlib.suppress(OSError):  # a run in progress replaces its manifest
                size = _on_disk(os.lstat(os.path.join(folder, file)))
                total += size
                if file in sizes:
                    sizes[file] += size
    return Sizes(total, sizes["events.xpt"], sizes["cpu.xpt"], per_launch)
