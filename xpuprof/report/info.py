"""What `xpuprof info` tells of a run directory."""

from __future__ import annotations

import shlex
from typing import Any

from xpuprof.engines.filters import Filters
from xpuprof.report.text import (
    count,
    number_of,
    percent,
    seconds,
    shorten,
    table,
    times,
)
from xpuprof.report.warnings import missing_distances
from xpuprof.trace.summary import NO_LAUNCH, NO_LAUNCH_YET


def as_text(summary: dict[str, Any]) -> str:
    """The paragraphs for people: the run, its kernels, processes and executions."""
    return "\n".join(
        [*_head(summary), *_kernels(summary), *_processes(summary), *_executions(summary)]
    )


def _head(summary: dict[str, Any]) -> list[str]:
    machine, launches = summary["machine"], summary["launches"]
    rows = [
        ("run", f"{summary['run']}  ({summary['status']})"),
        ("program", shlex.join(map(str, summary["argv"]))),
        ("recorded", f"{summary['created']} on {machine.get('host')}, {machine.get('cpu')}"),
        ("slices", count(summary["slices"])),
        ("launches", f"{count(launches['seen'])}, {count(launches['instrumented'])} instrumented"),
    ]
    if origin := summary["imported"]:
        # Another tool recorded it, elsewhere perhaps: this machine and its launches say nothing.
        rows[1:3] = [
            ("source", f"{origin.get('source')} ({origin.get('format')})"),
            ("imported", f"{summary['created']} on {machine.get('host')}"),
        ]
        del rows[4:]
    if left := launches["left_out"]:
        rows[-1] = ("launches", f"{rows[-1][1]}, {count(left)} left out by --kernels")
    if settings := Filters.read(summary["settings"]).text():
        rows.insert(3, ("settings", settings))
    if window := summary["window"]:
        rows.insert(4, ("window", _window(window, summary["slices"])))
    if "cpu" in summary:
        cpu, gpu = summary["cpu"], summary["gpu"]
        rows += [
            (
                "CPU",
                f"{cpu['engine']}: {count(cpu['instructions'])} instructions in "
                f"{count(cpu['threads'])} threads, {count(cpu['blocks'])} blocks",
            ),
            (
                "GPU",
                f"{gpu['engine']}: {count(gpu['instructions'])} instructions in "
                f"{count(gpu['warps'])} warps, {count(gpu['warp_vectors'])} distinct warp vectors",
            ),
        ]
    rows += _memory(summary.get("memory", {}))
    size = summary["bytes"]
    per_launch = f", {size['per_launch']:,.0f} a launch" if launches["seen"] else ""
    rows.append(("bytes", f"{count(size['total'])}{per_launch}"))
    lines = [f"{name:9} {text}" for name, text in rows]
    lines += [
        f"{'':9} uninstrumented: {count(number)} ({reason})"
        for reason, number in summary.get("uninstrumented", {}).items()
    ]
    lines += [
        f"{'':9} {sentence}"
        for execution in summary["executions"]
        for sentence in execution["fallbacks"] or []
    ]
    if not launches["seen"] and summary["executions"]:
        lines.append(_no_launch(summary["executions"]))
    return lines


def _no_launch(executions: list[dict[str, Any]]) -> str:
    if all(execution["gpu_engine"] == "none" for execution in executions):
        return "No GPU engine watched the program: the whole run is one slice."
    closed = all(process["closed"] for e in executions for process in e["processes"])
    return NO_LAUNCH if closed and not any(e["signal"] for e in executions) else NO_LAUNCH_YET


def _memory(memory: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if "cpu" in memory:
        cpu = memory["cpu"]
        rows.append(
            ("memory", f"CPU: {count(cpu['lines'])} lines touched, {count(cpu['cold'])} new")
        )
    if "device" in memory:
        device = memory["device"]
        text = (
            f"GPU: {count(device['accesses'])} accesses in {count(device['launches'])} launches, "
            f"{percent(device['share'])} of them recorded; {count(device['lines'])} lines touched, "
            f"{count(device['cold'])} new"
        )
        rows.append(("memory", text))
        rows += [("", sentence) for sentence in missing_distances(memory)]
    return rows


def _window(window: dict[str, Any], slices: int) -> str:
    if not window["openings"]:
        return f"{window['spec']} never opened"
    behind = "; the program was ended behind it" if window["ended"] else ""
    return (
        f"{window['spec']}, opened {times(window['openings'])}: {number_of(slices, 'slice')} of "
        f"{count(window['of_slices'])}; all below is about it{behind}"
    )


def _kernels(summary: dict[str, Any]) -> list[str]:
    rows = [
        [
            shorten(kernel["kernel"]),
            count(kernel["calls"]),
            count(kernel["warps"]),
            count(kernel["instructions"]),
            percent(kernel["share"]),
        ]
        for kernel in summary["kernels"]
    ]
    headers = ["kernel", "calls", "warps", "instructions", "share"]
    return ["", table(headers, rows, "lrrrr")] if rows else []


def _processes(summary: dict[str, Any]) -> list[str]:
    """One line a process of the execution that is described, when it has several."""
    shown = summary.get("processes", [])
    described = next((e for e in summary["executions"] if e["role"] == "profile"), None)
    described = described or next(iter(summary["executions"]), {"processes": []})
    rows = [
        [
            process["name"],
            _or_dash(process["rank"]),
            count(process["slices"]),
            count(process["launches"]),
            count(process["threads"]),
            count(process["cpu_instructions"]),
            count(process["gpu_instructions"]),
        ]
        for process in described["processes"]
    ]
    headers = ["process", "rank", "slices", "launches", "threads", "CPU instr.", "GPU instr."]
    if len(shown) < 2:
        return []
    idle = [p["name"] for p in described["processes"] if p["name"] not in shown]
    named = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
    left_out = [f"Without device work, so not counted above: {named}."] if idle else []
    return ["", table(headers, rows, "lrrrrrr"), *left_out]


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _executions(summary: dict[str, Any]) -> list[str]:
    rows = [
        [
            execution["name"],
            str(execution["status"]),
            execution["signal_name"] or _or_dash(execution["exit_code"]),
            "-" if execution["wall_s"] is None else seconds(execution["wall_s"]),
            count(sum(process["launches"] for process in execution["processes"])),
            count(len(execution["processes"])),
            count(execution["bytes"]),
        ]
        for execution in summary["executions"]
    ]
    headers = ["execution", "status", "exit", "time", "launches", "processes", "bytes"]
    return ["", table(headers, rows, "llrrrrr")] if rows else []
