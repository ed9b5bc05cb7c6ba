"""A run directory in one object: what `xpuprof info --json` prints and its table shows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from xpuprof.signals import signal_name
from xpuprof.trace.digest import DeviceAccesses, Digest, ExecutionDigest, digests_of
from xpuprof.trace.reader import process_folders
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES
from xpuprof.trace.tables import Process

NO_LAUNCH = "The program launched no kernel: the whole run is one slice."
NO_LAUNCH_YET = "The program was ended before it launched a kernel: the whole run is one slice."
NOT_READ = "the process ended before the counts were read"


def summarize(run: Run) -> dict[str, Any]:
    """Status, slices, launches, kernels, threads, warps, engines, sizes (bytes), executions.

    `slices` and what follows describe the profile, or the first timer run where there is none;
    of several processes, those with launches together. Raises TraceError.
    """
    manifest = run.manifest
    executions = digests_of(run)
    result: dict[str, Any] = {
        "run": str(run.path),
        "status": run.status,
        "reason": run.reason,
        "argv": manifest.get("argv", []),
        "created": manifest.get("created", ""),
        "machine": manifest["machine"],
        "clock": manifest["clock"],
        "seed": manifest.get("seed"),
        "settings": manifest.get("settings", {}),
        "imported": manifest.get("imported"),
        "window": None,
        "slices": 0,
        "launches": {"seen": 0, "instrumented": 0, "left_out": 0},
        "kernels": [],
        "executions": [_execution(run.path, execution) for execution in executions],
        "bytes": _bytes(run.path),
    }
    if (run.path / "imported").is_dir():
        from xpuprof.trace.imported import ImportedSlices  # loads SciPy

        result["slices"] = ImportedSlices(run.path).rows
    if shown := _shown(executions):
        working = [process for process in shown.processes if process.launches]
        most = max(shown.processes, key=lambda process: process.cpu_instructions)
        result |= _described(shown.record, working or [most])
        seen = max(result["launches"]["seen"], 1)
        result["bytes"]["per_launch"] = _stream_bytes(run.path / shown.record.name) / seen
    return result


def _shown(executions: Sequence[ExecutionDigest]) -> ExecutionDigest | None:
    """The profile, else the first execution."""
    profiles = [e for e in executions if e.record.role == "profile"]
    return next(iter([*profiles, *executions]), None)


def _described(record: ExecutionRecord, processes: list[Digest]) -> dict[str, Any]:
    """The processes together; versions and units are those of the first."""

    def total(name: str) -> int:
        return sum(int(getattr(process, name)) for process in processes)

    meta = processes[0].meta
    return {
        "slices": total("slices"),
        "window": _window(processes),
        "launches": {
            "seen": total("seen"),
            "instrumented": total("instrumented"),
            "left_out": total("left_out"),
        },
        "uninstrumented": _reasons(processes),
        "kernels": _kernels(processes),
        "threads": total("threads"),
        "warps": total("warps"),
        "processes": [process.name for process in processes],
        "memory": _memory(
            [process.cpu_lines for process in processes if process.cpu_lines],
            [process.device for process in processes if process.device],
        ),
        "cpu": {
            "engine": record.cpu_engine,
            "version": meta.get("cpu_engine_version", ""),
            "hidden_isa": meta.get("cpu_hidden_isa", ""),
            "instructions": total("cpu_instructions"),
            "threads": total("threads"),
            "images": total("images"),
            "blocks": total("cpu_blocks"),
        },
        "gpu": {
            "engine": record.gpu_engine,
            "version": meta.get("engine_version", ""),
            "count_unit": meta.get("count_unit", ""),
            "warp_size": meta.warp_size,
            "instructions": total("gpu_instructions"),
            "warps": total("warps"),
            "blocks": total("gpu_blocks"),
            "warp_vectors": total("warp_vectors"),
            "grids": total("grids"),
        },
    }


def _window(processes: Sequence[Digest]) -> dict[str, Any] | None:
    """As `window.window_facts`."""
    clipped = [process for process in processes if process.window]
    if not clipped:
        return None
    return {
        "spec": clipped[0].window,
        "openings": sum(process.openings for process in clipped),
        "of_slices": sum(process.of_slices for process in clipped),
        "of_launches": sum(process.of_launches for process in clipped),
        "ended": any("ended" in process.meta for process in clipped),
    }


def memory_summary(processes: Sequence[Process]) -> dict[str, Any]:
    """What is known of stack distances; empty without --memory. Shares are of accesses."""
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


def _memory(cpu: Sequence[tuple[int, int]], devices: Sequence[DeviceAccesses]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if cpu:
        lines, cold = (sum(numbers) for numbers in zip(*cpu, strict=True))
        result["cpu"] = {"lines": lines, "cold": cold}
    if devices:
        sums: dict[str, Any] = {
            f.name: sum(getattr(device, f.name) for device in devices)
            for f in fields(DeviceAccesses)
        }
        recorded, accesses = sums.pop("recorded"), sums["accesses"]
        result["device"] = sums | {"share": recorded / accesses if accesses else 1.0}
    return result


def _kernels(processes: Sequence[Digest]) -> list[dict[str, Any]]:
    """By share of the device's instructions, then by calls."""
    total = max(sum(process.gpu_instructions for process in processes), 1)
    found: dict[str, dict[str, Any]] = {}
    for process in processes:
        for name, sums in process.kernels.items():
            row = found.setdefault(name, {"kernel": name} | dict.fromkeys(vars(sums), 0))
            for column, value in vars(sums).items():
                row[column] += value
    rows = [row | {"share": row["instructions"] / total} for row in found.values()]
    return sorted(rows, key=lambda row: (-row["instructions"], -row["calls"], row["kernel"]))


def _reasons(processes: Sequence[Digest]) -> dict[str, int]:
    """Why launches ran uninstrumented that should not have, and how many each, most first."""
    found: dict[str, int] = {}
    for process in processes:
        for reason, number in process.reasons.items():
            found[reason or NOT_READ] = found.get(reason or NOT_READ, 0) + number
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def reasons_of(launches: pd.DataFrame) -> dict[str, int]:
    """Why launches ran uninstrumented that should not have, and how many each."""
    wanted = launches["inside"].astype(bool) & ~launches["left_out"].astype(bool)
    reasons = launches["reason"][wanted & ~launches["instrumented"].astype(bool)]
    return {str(reason) or NOT_READ: int(n) for reason, n in reasons.value_counts().items()}


def _execution(run: Path, execution: ExecutionDigest) -> dict[str, Any]:
    record = execution.record
    return {
        "name": record.name,
        "role": record.role,
        "status": record.status,
        "reason": record.reason,
        "exit_code": record.exit_code,
        "signal": record.signal,
        "wall_s": record.wall_s,
        "cpu_engine": record.cpu_engine,
        "gpu_engine": record.gpu_engine,
        "timer": record.timer,
        "fallbacks": list(record.fallbacks),
        "signal_name": signal_name(record.signal) if record.signal else None,
        "processes": [
            {
                "name": process.name,
                "rank": process.meta.rank,
                "slices": process.slices,
                "launches": process.seen,
                "threads": process.threads,
                "cpu_instructions": process.cpu_instructions,
                "gpu_instructions": process.gpu_instructions,
                "closed": process.complete,
            }
            for process in execution.processes
        ],
        "bytes": _stream_bytes(run / record.name),
    }


def _on_disk(status: os.stat_result) -> int:
    """Bytes of a file; a stream under way ends in a hole."""
    return min(status.st_size, status.st_blocks * 512)


def _stream_bytes(folder: Path) -> int:
    return sum(
        _on_disk((part / file).stat())
        for part in process_folders(folder)
        for file in FILES.values()
        if (part / file).exists()
    )


def _bytes(run: Path) -> dict[str, Any]:
    """Sizes on disk."""
    sizes = dict.fromkeys(FILES.values(), 0)
    total = 0
    for folder, _, files in os.walk(run):
        for file in files:
            with contextlib.suppress(OSError):  # a run under way replaces its manifest
                size = _on_disk(os.lstat(os.path.join(folder, file)))
                total += size
                if file in sizes:
                    sizes[file] += size
    return {
        "total": total,
        "events": sizes["events.xpt"],
        "cpu": sizes["cpu.xpt"],
        "per_launch": 0.0,
    }
