# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof info`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from xpuprof.engines.filters import Filters
from xpuprof.report.kernel_names import shorten
from xpuprof.report.text import (
    amount,
    count,
    number_of,
    percent,
    table,
    times,
)
from xpuprof.report.warnings import missing_distances
from xpuprof.signals import signal_name
from xpuprof.trace.device_times import DeviceTimes
from xpuprof.trace.processes import Job
from xpuprof.trace.summary import Summary, no_launch
from xpuprof.trace.sums import KernelSums, Sums
from xpuprof.trace.window import WindowFacts
from xpuprof.units import seconds
from xpuprof.workflow.next_step import command

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportedSlices, KernelTotal
    from xpuprof.trace.run import Run

MOST_KERNELS = 30
"""Kernels that are listed; real programs have hundreds."""
ENOUGH_LAUNCHES = 100
"""Launches from which bytes a launch say more than the size of an empty stream."""
Rows = list[tuple[str, str]]


def as_text(summary: Summary) -> str:
    """The paragraphs for people: the run, its kernels, processes and executions."""
    kernels = kernels_text(summary)
    parts = [_head(summary), ["", kernels] if kernels else []]
    if summary.job:
        parts.append(_processes(summary.job))
    parts.append(_executions(summary))
    return "\n".join(line for part in parts for line in part)


def kernels_text(summary: Summary, most: int = MOST_KERNELS) -> str:
    """The table of the heaviest kernels, with their times where known; empty without kernels."""
    if summary.imported:
        return "\n".join(_imported_kernels(summary.imported, most))
    lines = _kernels(summary.sums, summary.times, most)
    if lines and summary.times is None:
        lines.append(_how_to_time(summary.run))
    return "\n".join(lines)


def _how_to_time(run: Run) -> str:
    """The commands that give the time of each kernel of a run whose device stamped no launch."""
    time = command("time", "-o", "TIMES", "--", *(run.manifest["argv"] or ["./app", "args"]))
    report = command("report", run.path, "--times", "TIMES")
    return f"kernel times are not recorded; to see them: {time}, then: {report}"


def _head(summary: Summary) -> list[str]:
    sums = summary.sums
    rows = _imported(summary, summary.imported) if summary.imported else _recorded(summary)
    if summary.job and _counts(summary.job):
        rows += _engines(summary.job) + _memory(sums)
    per_launch = ""
    if sums.seen >= ENOUGH_LAUNCHES:
        per_launch = f", {summary.bytes_per_launch:,.0f} a launch"
    rows.append(("bytes", f"{count(summary.bytes.total)}{per_launch}"))
    if _counts(summary.job):
        rows += [
            ("", f"uninstrumented: {count(number)} ({reason})")
            for reason, number in sums.uninstrumented.items()
        ]
    rows += [("", sentence) for one in summary.executions for sentence in one.record.fallbacks]
    lines = [f"{name:9} {text}" for name, text in rows]
    if summary.job and not sums.of_launches:
        lines.append(no_launch(summary.job.execution, sums))
    return lines


def _counts(job: Job | None) -> bool:
    """Whether its execution counts instructions; native ones are only timed."""
    return job is not None and job.execution.role == "profile"


def _recorded(summary: Summary) -> Rows:
    manifest, sums = summary.run.manifest, summary.sums
    machine = manifest["machine"]
    counted = f", {count(sums.instrumented)} instrumented" * _counts(summary.job)
    others = f", {count(sums.left_out)} left out by --kernels" * bool(sums.left_out)
    others += f"; {count(sums.unfinished)} more were not finished" * bool(sums.unfinished)
    rows = [
        ("run", f"{summary.run.path}  ({summary.run.status})"),
        ("program", shlex.join(manifest["argv"])),
        (
            "recorded",
            f"{manifest.get('created', '')} on {machine.get('host')}, {machine.get('cpu')}",
        ),
        ("settings", Filters.read(manifest.get("settings", {})).text()),
        ("window", _window(summary.window, summary.slices)),
        ("slices", count(summary.slices)),
        ("launches", f"{count(sums.seen)}{counted}{others}"),
    ]
    return [(name, text) for name, text in rows if text or name == "program"]


def _imported(summary: Summary, imported: ImportedSlices) -> Rows:
    """Rows of an import. Another tool recorded it, perhaps elsewhere: its machine is unknown."""
    manifest, kernels = summary.run.manifest, imported.kernels()
    origin = manifest.get("imported") or {}
    time = ""
    if metric := imported.time_name:
        time = f", {amount(sum(k.time or 0.0 for k in kernels), metric)} in all ({metric})"
    launches = count(sum(kernel.calls for kernel in kernels))
    return [
        ("run", f"{summary.run.path}  ({summary.run.status})"),
        ("source", f"{origin.get('source')} ({origin.get('format')})"),
        ("imported", f"{manifest.get('created', '')} on {manifest['machine'].get('host')}"),
        ("slices", count(summary.slices)),
        ("launches", f"{launches} of {number_of(len(kernels), 'kernel')}{time}"),
    ]


def _imported_kernels(imported: ImportedSlices, most: int) -> list[str]:
    metric, kernels = imported.time_name, imported.kernels()
    alike: dict[str, list[KernelTotal]] = {}
    for kernel in kernels:
        alike.setdefault(shorten(kernel.kernel), []).append(kernel)
    groups = sorted(alike.items(), key=lambda item: -sum(k.time or 0.0 for k in item[1]))
    headers, align = ["kernel", "calls"], "lr"
    if several := len(alike) < len(kernels):
        headers, align = ["kernel", "variants", "calls"], "lrr"
    rows = [
        [
            name,
            *([count(len(group))] * several),
            count(sum(kernel.calls for kernel in group)),
            *(
                [
                    amount(sum(kernel.time or 0.0 for kernel in group), metric),
                    percent(sum(kernel.share or 0.0 for kernel in group)),
                ]
                if metric
                else []
            ),
        ]
        for name, group in groups[:most]
    ]
    headers += [metric, "share"] if metric else []
    more = _more(len(groups) - most)
    if several:
        more.append("variants: kernels whose names differ beyond that; --full-names lists them")
    return [table(headers, rows, align + "rr"[: 2 * bool(metric)]), *more]


def _more(rest: int) -> list[str]:
    more = f"... and {number_of(rest, 'kernel')} more; xpuprof info --json has them all"
    return [more] if rest > 0 else []


def _engines(job: Job) -> Rows:
    sums, record = job.sums, job.execution.record
    native = any(process.meta.native_start_up for process in job.processes)
    cpu = (
        f"{record.cpu_engine}: {number_of(sums.cpu_instructions, 'instruction')} in "
        f"{number_of(sums.threads, 'thread')}, {number_of(sums.cpu_blocks, 'block')}"
        f"{'; start-up ran natively, uncounted' if native else ''}"
    )
    gpu = (
        f"{record.gpu_engine}: {number_of(sums.gpu_instructions, 'instruction')} in "
        f"{number_of(sums.warps, 'warp')}, {number_of(sums.warp_vectors, 'distinct warp vector')}"
    )
    return [
        ("CPU", "not watched" if record.cpu_engine == "none" else cpu),
        ("GPU", "not watched" if record.gpu_engine == "none" else gpu),
    ]


def _memory(sums: Sums) -> Rows:
    rows = []
    if cpu := sums.cpu_lines:
        rows.append(("memory", f"CPU: {count(cpu.lines)} lines touched, {count(cpu.cold)} new"))
    if device := sums.device:
        text = (
            f"GPU: {count(device.accesses)} accesses in {count(device.launches)} launches, "
            f"{percent(device.share)} of them recorded; {count(device.lines)} lines touched, "
            f"{count(device.cold)} new"
        )
        rows.append(("memory", text))
        rows += [("", sentence) for sentence in missing_distances(device)]
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


def _kernels(sums: Sums, times: DeviceTimes | None, most: int) -> list[str]:
    counted = sums.instrumented > 0  # timer runs count nothing
    headers = ["kernel", "calls"]
    headers += [("device" if times.native else "profiled") + " time", "of time"] if times else []
    partly = counted and any(own.instrumented < own.calls for own in sums.kernels.values())
    headers += ["counted"] * partly + ["warps", "instructions", "share"] * counted
    rows = []
    for name, own, share in _heaviest_first(sums, times)[:most]:
        row = [shorten(name), count(own.calls)]
        if times:
            known = times.seconds.get(name)
            row += ["-" if known is None else seconds(known), percent(times.share(name))]
        if partly:
            row.append(count(own.instrumented))
        if counted:
            numbers = [count(own.warps), count(own.instructions), percent(share)]
            row += numbers if own.instrumented else ["-"] * len(numbers)
        rows.append(row)
    if not rows:
        return []
    return [table(headers, rows, "l" + "r" * (len(headers) - 1)), *_more(len(sums.kernels) - most)]


def _heaviest_first(sums: Sums, times: DeviceTimes | None) -> list[tuple[str, KernelSums, float]]:
    """Kernels sorted by native time, or by instructions if it is unknown."""
    rows = sums.kernels_by_share()
    if times and times.native:
        rows.sort(key=lambda row: -times.seconds.get(row[0], 0.0))
    return rows


def _processes(job: Job) -> list[str]:
    """One line per process of the described execution, if it has several."""
    if not job.several:
        return []
    rows = [
        [
            process.name,
            _or_dash(process.rank),
            count(process.sums.slices),
            count(process.sums.seen),
            count(process.sums.threads),
            count(process.sums.cpu_instructions),
            count(process.sums.gpu_instructions),
        ]
        for process in job.execution.processes
    ]
    headers = ["process", "rank", "slices", "launches", "threads", "CPU instr.", "GPU instr."]
    idle = [p.name for p in job.execution.processes if p not in job.processes]
    named = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
    left_out = [f"Not counted above, because they have no device work: {named}."] if idle else []
    return ["", table(headers, rows, "lrrrrrr"), *left_out]


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _executions(summary: Summary) -> list[str]:
    rows = []
    for execution in summary.executions:
        record, processes = execution.record, execution.processes
        rows.append(
            [
                record.name,
                record.status,
                signal_name(record.signal) if record.signal else _or_dash(record.exit_code),
                "-" if record.wall_s is None else seconds(record.wall_s),
                count(sum(process.sums.seen for process in processes)),
                count(len(processes)),
                count(summary.stream_bytes(execution)),
            ]
        )
    headers = ["execution", "status", "exit", "time", "launches", "processes", "bytes"]
    return ["", table(headers, rows, "llrrrrr")] if rows else []
