# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof info`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

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
from xpuprof.trace.summary import (
    Counts,
    ExecutionRow,
    Memory,
    Summary,
    no_launch,
)
from xpuprof.trace.window import WindowFacts

Rows = list[tuple[str, str]]


def as_text(summary: Summary) -> str:
    """The paragraphs for people: the run, its kernels, processes and executions."""
    counts = summary.counts
    parts = [_head(summary)]
    if counts:
        parts += [_kernels(counts), _processes(summary.executions, counts)]
    parts.append(_executions(summary.executions))
    return "\n".join(line for part in parts for line in part)


def _head(summary: Summary) -> list[str]:
    counts = summary.counts
    rows = _imported(summary) if summary.imported else _recorded(summary)
    if counts:
        rows += _engines(counts) + _memory(counts.memory)
    seen = summary.launches.seen
    per_launch = f", {summary.bytes.per_launch:,.0f} a launch" if seen else ""
    rows.append(("bytes", f"{count(summary.bytes.total)}{per_launch}"))
    if counts:
        rows += [
            ("", f"uninstrumented: {count(number)} ({reason})")
            for reason, number in counts.uninstrumented.items()
        ]
    rows += [("", sentence) for one in summary.executions for sentence in one.fallbacks]
    lines = [f"{name:9} {text}" for name, text in rows]
    if not seen and summary.executions:
        lines.append(_no_launch(summary.executions))
    return lines


def _recorded(summary: Summary) -> Rows:
    machine, launches = summary.machine, summary.launches
    left_out = f", {count(launches.left_out)} left out by --kernels" * bool(launches.left_out)
    rows = [
        ("run", f"{summary.run}  ({summary.status})"),
        ("program", shlex.join(map(str, summary.argv))),
        ("recorded", f"{summary.created} on {machine.get('host')}, {machine.get('cpu')}"),
        ("settings", Filters.read(summary.settings).text()),
        ("window", _window(summary.counts.window, summary.slices) if summary.counts else ""),
        ("slices", count(summary.slices)),
        (
            "launches",
            f"{count(launches.seen)}, {count(launches.instrumented)} instrumented{left_out}",
        ),
    ]
    return [(name, text) for name, text in rows if text or name == "program"]


def _imported(summary: Summary) -> Rows:
    """Rows of an import. Another tool recorded it, perhaps elsewhere: machine and launches are not
    shown."""
    origin = summary.imported or {}
    return [
        ("run", f"{summary.run}  ({summary.status})"),
        ("source", f"{origin.get('source')} ({origin.get('format')})"),
        ("imported", f"{summary.created} on {summary.machine.get('host')}"),
        ("slices", count(summary.slices)),
    ]


def _engines(counts: Counts) -> Rows:
    cpu, gpu = counts.cpu, counts.gpu
    return [
        (
            "CPU",
            f"{cpu.engine}: {count(cpu.instructions)} instructions in {count(cpu.threads)} "
            f"threads, {count(cpu.blocks)} blocks",
        ),
        (
            "GPU",
            f"{gpu.engine}: {count(gpu.instructions)} instructions in {count(gpu.warps)} warps, "
            f"{count(gpu.warp_vectors)} distinct warp vectors",
        ),
    ]


def _no_launch(executions: Sequence[ExecutionRow]) -> str:
    closed = all(process.closed for e in executions for process in e.processes)
    return no_launch(
        any(execution.gpu_engine != "none" for execution in executions),
        closed and not any(execution.signal for execution in executions),
        [sentence for execution in executions for sentence in execution.losses],
    )


def _memory(memory: Memory) -> Rows:
    rows = []
    if cpu := memory.cpu:
        rows.append(("memory", f"CPU: {count(cpu.lines)} lines touched, {count(cpu.cold)} new"))
    if device := memory.device:
        text = (
            f"GPU: {count(device.accesses)} accesses in {count(device.launches)} launches, "
            f"{percent(device.share)} of them recorded; {count(device.lines)} lines touched, "
            f"{count(device.cold)} new"
        )
        rows.append(("memory", text))
        rows += [("", sentence) for sentence in missing_distances(memory)]
    return rows


def _window(window: WindowFacts | None, slices: int) -> str:
    if window is None:
        return ""
    if not window.openings:
        return f"{window.spec} never opened"
    ended = "; the program was ended after it" if window.ended else ""
    return (
        f"{window.spec}, opened {times(window.openings)}: {number_of(slices, 'slice')} of "
        f"{count(window.of_slices)}; all numbers below cover it{ended}"
    )


def _kernels(counts: Counts) -> list[str]:
    rows = [
        [
            shorten(kernel.kernel),
            count(kernel.calls),
            count(kernel.warps),
            count(kernel.instructions),
            percent(kernel.share),
        ]
        for kernel in counts.kernels
    ]
    headers = ["kernel", "calls", "warps", "instructions", "share"]
    return ["", table(headers, rows, "lrrrr")] if rows else []


def _processes(executions: Sequence[ExecutionRow], counts: Counts) -> list[str]:
    """One line per process of the described execution, if it has several."""
    if len(counts.processes) < 2:
        return []
    described = next((e for e in executions if e.role == "profile"), executions[0])
    rows = [
        [
            process.name,
            _or_dash(process.rank),
            count(process.slices),
            count(process.launches),
            count(process.threads),
            count(process.cpu_instructions),
            count(process.gpu_instructions),
        ]
        for process in described.processes
    ]
    headers = ["process", "rank", "slices", "launches", "threads", "CPU instr.", "GPU instr."]
    idle = [p.name for p in described.processes if p.name not in counts.processes]
    named = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
    left_out = [f"Not counted above, because they have no device work: {named}."] if idle else []
    return ["", table(headers, rows, "lrrrrrr"), *left_out]


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _executions(executions: Sequence[ExecutionRow]) -> list[str]:
    rows = [
        [
            execution.name,
            execution.status,
            execution.signal_name or _or_dash(execution.exit_code),
            "-" if execution.wall_s is None else seconds(execution.wall_s),
            count(sum(process.launches for process in execution.processes)),
            count(len(execution.processes)),
            count(execution.bytes),
        ]
        for execution in executions
    ]
    headers = ["execution", "status", "exit", "time", "launches", "processes", "bytes"]
    return ["", table(headers, rows, "llrrrrr")] if rows else []
