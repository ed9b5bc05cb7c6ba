"""Ends a run: what its executions left decides whether it is complete."""

from __future__ import annotations

from pathlib import Path

from xpuprof.errors import TraceError
from xpuprof.trace.run import Run, RunWriter


def finish(writer: RunWriter, folder: Path) -> Run:
    """Sets the run's final status from its executions and their streams; gives the run, open.

    A run is partial when an execution was ended by a signal or a process left a stream unclosed.
    """
    reason = ""
    try:
        for execution in Run.open(folder).executions:
            reason = reason or str(execution.record.get("reason", ""))
            for process in execution.processes:
                if not process.complete and not reason:
                    reason = (
                        f"process {process.name} in {execution.name} ended without closing its "
                        "streams; every finished slice is there"
                    )
    except TraceError as error:
        reason = str(error)
    writer.finish("partial" if reason else "complete", reason)
    return Run.open(folder)
