# SPDX-License-Identifier: Apache-2.0
"""Ends a run: the traces of its executions decide whether it is complete."""

from __future__ import annotations

from pathlib import Path

from xpuprof.errors import TraceError
from xpuprof.signals import signal_name
from xpuprof.trace.kernel_names import brief
from xpuprof.trace.reader import process_folders
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import RunWriter
from xpuprof.trace.tables import Execution, Process
from xpuprof.trace.window import never_opened


def finish(writer: RunWriter, folder: Path, stop: int | None = None, reason: str = "") -> Run:
    """Sets the run's final status from its executions and their streams; returns the run, open.
    `reason`: why it is partial, if the caller knows.

    A run is partial when a signal ended an execution, an execution ended differently from the
    first or launched nothing where that did, a process left a stream unclosed, an engine or tool
    failed or lost counts, the window never opened, or the signal `stop` asked us to end before all
    executions were done.
    """
    try:
        run = writer.opened()
        executions = run.executions
        for execution in executions:
            reason = reason or execution.record.reason
            if not reason and execution.record.role == "profile":
                reason = no_process(run, execution) or _silence(execution)
            reason = reason or _other_ending(run, executions[0], execution)
            for process in execution.processes:
                reason = reason or _failure(execution, process) or _unread(execution, process)
            reason = reason or _unclosed(execution) or never_opened(execution.processes)
            reason = reason or none_chosen(execution) or no_process(run, execution)
            reason = reason or launched_nothing(executions[0], execution)
        if stop is not None:
            reason = reason or f"{signal_name(stop)} asked xpuprof to stop"
    except TraceError as error:
        reason = str(error)
    except BaseException:  # an interrupt: keep what is known of the run
        writer.finish("partial", reason or "xpuprof was stopped while it finished the run")
        raise
    writer.finish("partial" if reason else "complete", reason)
    return writer.opened()


def _other_ending(run: Run, first: Execution, execution: Execution) -> str:
    """A sentence if the exit code differs from the first execution's and we did not end the
    program ourselves; else empty."""
    if run.manifest.get("settings", {}).get("after_window") == "end":
        return ""
    codes = [e.record.exit_code for e in (first, execution)]
    if None in codes or codes[0] == codes[1]:
        return ""
    causes = {process.meta.get("binaries_refused", "") for process in execution.processes} - {""}
    return "; ".join(
        [
            f"the program ended with exit code {codes[1]} in {execution.name}, with {codes[0]} in "
            f"{first.name}",
            *causes,
        ]
    )


def _unclosed(execution: Execution) -> str:
    """Names processes that crashed or were killed (a launcher that sees a crash kills the rest)."""
    names = [process.name for process in execution.processes if not process.complete]
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    what, their = ("process", "its") if len(names) == 1 else ("processes", "their")
    return (
        f"{what} {', '.join(names[:3])}{more} in {execution.name} ended without closing {their} "
        "streams; every finished slice is there"
    )


def _failure(execution: Execution, process: Process) -> str:
    """The failure that the device side reported; empty: none."""
    record = execution.record
    for key, what, name in (
        ("gpu_engine_failed", "GPU engine", record.gpu_engine),
        ("gpu_tool_failed", "GPU tool", record.gpu_tool),
    ):
        if why := process.meta.get(key):
            return f"{what} {name} failed in process {process.name} of {execution.name}: {why}"
    return ""


def _unread(execution: Execution, process: Process) -> str:
    """A sentence if counts of ended kernels are lost, which may tell of worse; else empty."""
    if not (lost := process.sums.not_read):
        return ""
    return (
        f"the counts of {lost:,} {'launches' if lost > 1 else 'launch'} in process {process.name} "
        f"of {execution.name} could not be read; check the program's results"
    )


def no_process(run: Run, execution: Execution) -> str:
    """A sentence if no process that `--process` chose left a trace; else empty."""
    record = execution.record
    globs = record.filters.get("processes")
    if not isinstance(globs, list) or process_folders(run.path / execution.name):
        return ""
    if record.gpu_engine == record.cpu_engine == "none":
        return ""  # nothing would leave one
    did = "launched a kernel"
    if record.gpu_engine == "none":
        did = "was recorded (with --gpu none, only the one that is started, or sets marks)"
    return f"no process that matches --process {', '.join(globs)} {did}; choose another name"


def none_chosen(execution: Execution) -> str:
    """A sentence if `--kernels` matches no launch of a profile; else empty."""
    spec = execution.record.filters.get("kernels", "")
    sums = [process.sums for process in execution.processes]
    seen = sum(own.seen for own in sums)
    if not (spec and seen) or seen > sum(own.left_out for own in sums):
        return ""
    kernels = sorted({brief(name) for own in sums for name in own.kernels})
    some = ", ".join(kernels[:3]) + (f" and {len(kernels) - 3} more" if len(kernels) > 3 else "")
    return (
        f"--kernels {spec} chose none of the {seen:,} launches (of {some}), so no kernel was "
        "counted; name launches or kernels of the program"
    )


def launched_nothing(first: Execution, execution: Execution) -> str:
    """A sentence if the program launched kernels in its first execution and none in this one; else
    empty."""
    if execution.record.gpu_engine == "none" or any(p.window for p in execution.processes):
        return ""
    before, now = (sum(p.sums.of_launches for p in e.processes) for e in (first, execution))
    if now or not before:
        return ""
    return (
        f"the program launched {before:,} {'kernels' if before > 1 else 'kernel'} in {first.name} "
        f"and none in {execution.name}; let it do the same work each time (does it keep its "
        "results, or read a terminal?)"
    )


def _silence(execution: Execution) -> str:
    """A sentence if the CPU engine left no vectors: it failed, and the program ran without it."""
    engine = execution.record.cpu_engine
    if engine == "none" or any("cpu_engine" in process.meta for process in execution.processes):
        return ""
    return f"CPU engine {engine} wrote nothing in {execution.name}; see the logs in its folder"
