"""What `run` and `validate` tell: the representatives, their times, and how far they can be
trusted."""

from __future__ import annotations

from xpuprof.estimation.projection import sampling_error
from xpuprof.estimation.typical_times import typical_times
from xpuprof.report.memory import missing_distances
from xpuprof.report.projected import (
    SHOWN,
    estimate_json,
    measured_by,
    projected_line,
    saving_json,
    saving_lines,
    shares_json,
    shares_text,
)
from xpuprof.report.text import (
    count,
    number_of,
    percent,
    seconds,
    shorten,
    table,
)
from xpuprof.report.validation import regions_json
from xpuprof.trace.coordinates import EXIT_KERNEL, NO_KERNELS
from xpuprof.trace.processes import Job
from xpuprof.trace.summary import NO_LAUNCH, NO_LAUNCH_YET, memory_summary, reasons_of
from xpuprof.trace.tables import Execution, Process
from xpuprof.trace.window import window_facts
from xpuprof.workflow.evaluate import Result
from xpuprof.workflow.profile import Profiled
from xpuprof.workflow.run import Ran
from xpuprof.workflow.time import TimedRuns

OF_CODE = ("include_images", "exclude_images", "main_image_only", "routines", "threads")
"""Settings that say which of the CPU's code counts."""


def as_json(result: Result) -> dict[str, object]:
    """The object that `xpuprof run --json` prints."""
    job, selection = result.job, result.selection
    slices = job.slices
    return {
        "run": str(result.folder),
        "status": result.status,
        "reason": result.reason,
        "exit_code": result.exit_code,
        "slices": selection.slices,
        "window": window_facts(job.processes),
        "settings": result.execution.record.filters,
        "method": selection.method,
        "k": selection.k,
        "representatives": [
            {
                "slice": r.slice,
                "process": r.process,
                "kernel": r.end.kernel,
                "call": r.end.call,
                "multiplier": r.multiplier,
                "cluster": r.cluster,
            }
            for r in selection.representatives
        ],
        "measured_s": result.measured,
        "runs_s": result.times.sum(axis=1).tolist(),
        **estimate_json(result.estimate),
        "sampling_error": sampling_error(result.estimate.value, result.measured),
        **saving_json(selection, result.time_speedup),
        "wall_s": list(result.walls),
        **shares_json(result.shares),
        "launches": launches_json(job),
        "fallbacks": list(result.execution.record.fallbacks),
        "cpu": {
            "engine": result.execution.record.cpu_engine,
            "instructions": int(slices["cpu_instructions"].sum()),
            "threads": sum(len(process.threads) for process in job.processes),
        },
        "gpu": {
            "engine": result.execution.record.gpu_engine,
            "instructions": int(slices["gpu_instructions"].sum()),
            "warps": int(slices["warps"].sum()),
        },
    }


def unfinished_json(done: Ran) -> dict[str, object]:
    """The object of a run that was cut short."""
    return {
        "run": str(done.run.path),
        "status": done.run.status,
        "reason": done.unfinished,
        "exit_code": done.ending.exit_code,
    }


def profile_json(done: Profiled) -> dict[str, object]:
    """The object that `xpuprof profile --json` prints."""
    job = done.job
    return {
        "run": str(done.run.path),
        "status": done.run.status,
        "reason": done.run.reason,
        "exit_code": done.ending.exit_code,
        "slices": len(job.slices),
        "window": window_facts(job.processes),
        "processes": [key.label for key in job.keys] if job.several else [],
        "launches": launches_json(job),
    }


def time_json(done: TimedRuns) -> dict[str, object]:
    """The object that `xpuprof time --json` prints."""
    regions = done.regions
    return {
        "run": str(done.run.path),
        "status": done.run.status,
        "exit_code": done.ending.exit_code,
        "slices": done.slices,
        "seconds": list(done.seconds),
        **({"regions": regions_json(regions)} if regions is not None else {}),
    }


def launches_json(job: Job) -> dict[str, object]:
    """Launches of all processes, and why some ran uninstrumented."""
    return {
        "seen": int(job.launches["inside"].sum()),
        "instrumented": int(job.launches["instrumented"].sum()),
        "left_out": left_out(job),
        "uninstrumented": uninstrumented(job),
    }


def uninstrumented(job: Job) -> dict[str, int]:
    """How many launches of the profile ran uninstrumented though they should not, by reason."""
    return reasons_of(job.launches)


def left_out(job: Job) -> int:
    """How many launches of the profile ran uninstrumented by choice (--kernels)."""
    return int((job.launches["inside"] & job.launches["left_out"]).sum())


def window_sentences(job: Job) -> list[str]:
    """What part of each process the numbers are about; nothing without a window."""
    found = [_window_sentence(process, job.several) for process in job.processes if process.window]
    return [*found, *_elsewhere(job)]


def _elsewhere(job: Job) -> list[str]:
    """Processes that launched kernels, none of them in the window."""
    taken = {process.name for process in job.processes}
    names = [
        process.name
        for process in job.execution.processes
        if process.name not in taken and (facts := window_facts([process])) and facts["of_launches"]
    ]
    if not names:
        return []
    more = f" and {count(len(names) - 3)} more" if len(names) > 3 else ""
    return [
        f"{', '.join(names[:3])}{more} launched kernels, but none in the window: no part of the "
        "profile (each process counts its own launches and markers)"
    ]


def _window_sentence(process: Process, several: bool) -> str:
    found = window_facts([process])
    assert found is not None
    where = f" of process {process.name}" if several else ""
    if not found["openings"]:
        return (
            f"the window {found['spec']} never opened in process {process.name}, which launched "
            f"{count(found['of_launches'])} kernels; nothing was recorded"
        )
    behind = ", and was ended behind it" if found["ended"] else ""
    return (
        f"window {found['spec']}{where}: all numbers are about its "
        f"{number_of(len(process.slices), 'slice')}; the program made "
        f"{count(found['of_slices'])} in all{behind}"
    )


def warnings(job: Job) -> list[str]:
    """What the user must know about the counts, one sentence each."""
    found = [
        f"{count(number)} launches ran uninstrumented: {reason}"
        for reason, number in uninstrumented(job).items()
    ]
    found += [
        f"stack distances of {sentence}"
        for sentence in missing_distances(memory_summary(job.processes))
    ]
    metas = [process.meta for process in job.processes]
    if any("went_on" in meta for meta in metas):
        found.append(
            "ranks of MPI are not ended behind their window, since the launcher would take it for "
            "a crash and kill the others: the program went on to its own end"
        )
    if any(meta.get("programs_that_launch", "0") != "0" for meta in metas):
        found.append(
            "kernels of this program can launch kernels by themselves: what these do belongs to "
            "the slice of the launch that caused it, and no engine counts it"
        )
    if unknown := {meta.get("launch_calls_not_understood", "") for meta in metas} - {""}:
        found.append(
            f"launches by calls newer than xpuprof are not seen: {', '.join(sorted(unknown))}"
        )
    filters = job.execution.record.filters
    chosen = left_out(job)
    if chosen and chosen == int(job.launches["inside"].sum()):
        found.append(
            f"--kernels {filters.get('kernels', '')} chose none of the {count(chosen)} launches, "
            "so no kernel was counted; xpuprof info names the kernels"
        )
    elif chosen:
        found.append(
            f"{count(chosen)} launches were left out by --kernels: their slices are known by "
            "kernel name, grid and CPU vector (if a CPU engine ran) alone"
        )
    counted = sum(int(process.slices["cpu_instructions"].sum()) for process in job.processes)
    narrowed = [name for name in OF_CODE if name in filters]
    if narrowed and not counted and job.execution.record.cpu_engine != "none":
        asked = "; ".join(f"{name.replace('_', ' ')} {_listed(filters[name])}" for name in narrowed)
        found.append(
            f"the CPU engine counted nothing: no code that ran passes its filters ({asked})"
        )
    return found


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _marker(kernel: str, call: int) -> tuple[str, str]:
    if kernel == EXIT_KERNEL:
        return NO_KERNELS[kernel], ""
    return NO_KERNELS.get(kernel) or shorten(kernel), count(call)


def as_text(result: Result) -> str:
    """The table for people."""
    selection, mean = result.selection, typical_times(result.times)
    shown = sorted(selection.representatives, key=lambda r: -float(mean[r.slice]) * r.multiplier)[
        :SHOWN
    ]
    rows = []
    for r in sorted(shown, key=lambda r: r.slice):
        name, call = _marker(r.end.kernel, r.end.call)
        own = float(mean[r.slice])
        rows.append(
            [
                count(r.slice),
                *([result.job.keys[r.process].label] if result.shares else []),
                name,
                call,
                count(int((selection.labels == r.cluster).sum())),
                f"{r.multiplier:,.4g}",
                seconds(own),
                seconds(own * r.multiplier),
            ]
        )
    headers = [
        "slice",
        *(["process"] if result.shares else []),
        "ends with kernel",
        "call",
        "cluster size",
        "multiplier",
        "slice time",
        "projected",
    ]
    launches = result.job.launches[result.job.launches["inside"]]
    seen, instrumented = len(launches), int(launches["instrumented"].sum())
    record = result.execution.record
    lines = [
        *(f"{sentence}." for sentence in window_sentences(result.job)),
        number_of(selection.slices, "slice")
        + (f" of {len(result.shares)} processes" if result.shares else "")
        + f", {number_of(selection.k, 'cluster')}, method {selection.method}; "
        f"CPU by {record.cpu_engine}, GPU by {record.gpu_engine}, "
        f"{count(instrumented)} of {count(seen)} launches instrumented",
        "",
        table(headers, rows, "rllrrrrr" if result.shares else "rlrrrrr"),
        *_more(len(selection.representatives) - len(rows)),
        "",
        *shares_text(result.shares),
        *_summary(result),
    ]
    return "\n".join(lines)


def _more(hidden: int) -> list[str]:
    return (
        [f"... and {count(hidden)} lighter representatives; --json has them all"] if hidden else []
    )


def no_launch(execution: Execution) -> str:
    """Why an execution has one slice only."""
    if execution.record.gpu_engine == "none":
        return "No GPU engine watched the program: the whole run is one slice."
    if execution.record.signal or not all(p.complete for p in execution.processes):
        return NO_LAUNCH_YET
    return NO_LAUNCH


def _summary(result: Result) -> list[str]:
    measured, runs, selection = result.measured, result.times.sum(axis=1), result.selection
    spread = f"{seconds(float(runs.min()))} to {seconds(float(runs.max()))}"
    by = measured_by(len(runs), result.shares, spread if len(runs) > 1 else "")
    lines = [
        f"measured        {seconds(measured)}   {by}",
        projected_line(result.estimate),
        f"sampling error  {percent(sampling_error(result.estimate.value, measured))}",
        *saving_lines(selection, result.time_speedup, measured),
    ]
    if len(selection.representatives) == selection.slices:
        lines.append("Every slice is its own representative, so the error is 0 by construction.")
    if not len(result.job.launches):
        lines.append(no_launch(result.execution))
    return [*lines, *result.execution.record.fallbacks]
