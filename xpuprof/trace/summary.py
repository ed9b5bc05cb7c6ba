"""A run directory in one object: what `xpuprof info --json` prints and its table shows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from xpuprof.signals import signal_name
from xpuprof.trace.coordinates import WINDOW_END_KERNEL
from xpuprof.trace.reader import process_folders
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES
from xpuprof.trace.tables import Execution, Process
from xpuprof.trace.window import window_facts

NO_LAUNCH = "The program launched no kernel: the whole run is one slice."
NO_LAUNCH_YET = "The program was ended before it launched a kernel: the whole run is one slice."
NOT_READ = "the process ended before the counts were read"


def summarize(run: Run) -> dict[str, Any]:
    """Status, slices, launches, kernels, threads, warps, engines, sizes (bytes), executions.

    `slices` and what follows describe the profile, or the first timer run where there is none;
    of several processes, those with launches together. Raises TraceError.
    """
    manifest = run.manifest
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
        "executions": [_execution(run.path, execution) for execution in run.executions],
        "bytes": _bytes(run.path),
    }
    if (run.path / "imported").is_dir():
        from xpuprof.trace.imported import ImportedSlices  # loads SciPy

        result["slices"] = ImportedSlices(run.path).rows
    shown = run.profile or next(iter(run.executions), None)
    if shown is not None:
        working = [process for process in shown.processes if len(process.launches)]
        result |= _described(shown, working or [max(shown.processes, key=_cpu_instructions)])
        seen = max(result["launches"]["seen"], 1)
        result["bytes"]["per_launch"] = _stream_bytes(run.path / shown.name) / seen
    return result


def _cpu_instructions(process: Process) -> int:
    return int(process.slices["cpu_instructions"].sum())


def _described(execution: Execution, processes: list[Process]) -> dict[str, Any]:
    """The processes together; versions and units are those of the first."""
    launches = pd.concat([process.launches for process in processes], ignore_index=True)
    slices = pd.concat([process.slices for process in processes], ignore_index=True)
    cpu = [process.cpu for process in processes if process.cpu]
    gpu = [process.gpu for process in processes if process.gpu]
    meta = processes[0].meta
    return {
        "slices": len(slices),
        "window": window_facts(processes),
        "launches": {
            "seen": int(launches["inside"].sum()),
            "instrumented": int(launches["instrumented"].sum()),
            "left_out": int((launches["inside"] & launches["left_out"]).sum()),
        },
        "uninstrumented": reasons_of(launches),
        "kernels": _kernels(processes),
        "threads": sum(len(process.threads) for process in processes),
        "warps": int(slices["warps"].sum()),
        "processes": [process.name for process in processes],
        "memory": memory_summary(processes),
        "cpu": {
            "engine": execution.record.cpu_engine,
            "version": meta.get("cpu_engine_version", ""),
            "hidden_isa": meta.get("cpu_hidden_isa", ""),
            "instructions": int(slices["cpu_instructions"].sum()),
            "threads": sum(len(process.threads) for process in processes),
            "images": sum(len(process.images) for process in processes),
            "blocks": sum(len(vectors.blocks.identity) for vectors in cpu),
        },
        "gpu": {
            "engine": execution.record.gpu_engine,
            "version": meta.get("engine_version", ""),
            "count_unit": meta.get("count_unit", ""),
            "warp_size": meta.warp_size,
            "instructions": int(slices["gpu_instructions"].sum()),
            "warps": int(slices["warps"].sum()),
            "blocks": sum(len(vectors.blocks.identity) for vectors in gpu),
            "warp_vectors": sum(len(vectors.vector_start) - 1 for vectors in gpu),
            "grids": sum(len(vectors.grid_start) - 1 for vectors in gpu),
        },
    }


def memory_summary(processes: Sequence[Process]) -> dict[str, Any]:
    """What is known of stack distances; empty without --memory. Shares are of accesses."""
    result: dict[str, Any] = {}
    own = [process.distances.count for process in processes if process.distances is not None]
    if own:
        result["cpu"] = {
            "lines": sum(int(count.sum()) for count in own),
            "cold": sum(int(count[:, -1].sum()) for count in own),
        }
    devices = [p.device_distances for p in processes if p.device_distances is not None]
    if devices:
        accesses = sum(int(device.accesses.sum()) for device in devices)
        recorded = sum(int(device.recorded.sum()) for device in devices)
        result["device"] = {
            "launches": sum(len(device.launch) for device in devices),
            "in_part": sum(int((d.recorded < d.accesses).sum()) for d in devices),
            "accesses": accesses,
            "share": recorded / accesses if accesses else 1.0,
            "lines": sum(int(device.count.sum()) for device in devices),
            "cold": sum(int(device.count[:, -1].sum()) for device in devices),
            "beyond": sum(int(device.beyond.sum()) for device in devices),
            "forgot": sum(int(device.forgot.sum()) for device in devices),
        }
    return result


def _kernels(processes: list[Process]) -> list[dict[str, Any]]:
    """By share of the device's instructions, then by calls."""
    ends = pd.concat([p.slices.iloc[: len(p.launches)] for p in processes], ignore_index=True)
    ends = ends[ends["kernel"] != WINDOW_END_KERNEL]  # ends with no kernel
    total = max(int(ends["gpu_instructions"].sum()), 1)
    rows = [
        {
            "kernel": str(name),
            "calls": len(group),
            "instrumented": int(group["instrumented"].sum()),
            "warps": int(group["warps"].sum()),
            "instructions": int(group["gpu_instructions"].sum()),
            "share": int(group["gpu_instructions"].sum()) / total,
        }
        for name, group in ends.groupby("kernel", sort=False)
    ]
    return sorted(rows, key=lambda row: (-row["instructions"], -row["calls"], row["kernel"]))


def reasons_of(launches: pd.DataFrame) -> dict[str, int]:
    """Why launches ran uninstrumented that should not have, and how many each."""
    wanted = launches["inside"].astype(bool) & ~launches["left_out"].astype(bool)
    reasons = launches["reason"][wanted & ~launches["instrumented"].astype(bool)]
    return {str(reason) or NOT_READ: int(n) for reason, n in reasons.value_counts().items()}


def _execution(run: Path, execution: Execution) -> dict[str, Any]:
    record = execution.record
    return {
        "name": execution.name,
        "role": execution.role,
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
                "rank": process.rank,
                "slices": len(process.slices),
                "launches": int(process.launches["inside"].sum()),
                "threads": len(process.threads),
                "cpu_instructions": _cpu_instructions(process),
                "gpu_instructions": int(process.slices["gpu_instructions"].sum()),
                "closed": process.complete,
            }
            for process in execution.processes
        ],
        "bytes": _stream_bytes(run / execution.name),
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
