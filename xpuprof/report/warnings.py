# SPDX-License-Identifier: Apache-2.0
"""What the user must know about a profile and its projection, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xpuprof.launch.finish import none_chosen
from xpuprof.methods import registry
from xpuprof.report.text import count, number_of
from xpuprof.trace.processes import Job
from xpuprof.trace.summary import no_launch
from xpuprof.trace.sums import DeviceAccesses
from xpuprof.trace.tables import Process
from xpuprof.trace.window import window_facts

if TYPE_CHECKING:  # these load pandas, which a profile does without
    from xpuprof.selection.selection import Selection
    from xpuprof.workflow.evaluate import Result

_OF_CODE = ("include_images", "exclude_images", "main_image_only", "routines", "threads")
"""Filters that choose which CPU code counts."""

_LACKS = {
    "in_part": "recorded in part, because no room was left",
    "beyond": "with accesses that cannot be recorded (pipes, some of images)",
    "forgot": "with lines forgotten, because there were too many",
}


def notes(result: Result) -> list[str]:
    """What to know about a result, besides why it is unreliable."""
    return [*result.doubts, *warnings(result.job)]


def unstated(selection: Selection, job: Job) -> str:
    """Why there is no sampling error to state; empty if there is one."""
    if not job.sums.of_launches:
        return no_launch(job.execution, job.sums)
    lost = job.sums.uninstrumented
    blind = sum(lost.values()) == job.sums.launches and registry.find(selection.method).clusters
    if not blind:
        return ""
    return (
        f"no launch was instrumented ({next(iter(lost))}), so the slices were chosen without "
        "device vectors; choose by measured times, with select --method "
        f"{registry.by_measured_times()[0]}"
    )


def window_sentences(job: Job) -> list[str]:
    """Which part of each process the numbers cover; empty without a window."""
    found = [_window_sentence(process, job.several) for process in job.processes if process.window]
    return [*found, *_elsewhere(job)]


def _elsewhere(job: Job) -> list[str]:
    """A sentence about processes that launched kernels, but none in the window."""
    taken = {process.name for process in job.processes}
    names = [
        process.name
        for process in job.execution.processes
        if process.name not in taken and process.window and process.sums.of_launches
    ]
    if not names:
        return []
    more = f" and {count(len(names) - 3)} more" if len(names) > 3 else ""
    return [
        f"{', '.join(names[:3])}{more} launched kernels, but none in the window, so they are not "
        "in the profile (each process counts its own launches and markers)"
    ]


def _window_sentence(process: Process, several: bool) -> str:
    found = window_facts([process])
    assert found is not None
    where = f" of process {process.name}" if several else ""
    if not found.openings:
        return (
            f"the window {found.spec} never opened in process {process.name}, which launched "
            f"{count(found.of_launches)} kernels; nothing was recorded"
        )
    ended = "; the program was ended after it" if found.ended else ""
    return (
        f"window {found.spec}{where}: all numbers cover its "
        f"{number_of(process.sums.slices, 'slice')} of the {count(found.of_slices)} that the "
        f"program made{ended}"
    )


def _sum(metas: Sequence[Mapping[str, str]], key: str) -> int:
    """The sum of a count over the processes."""
    texts = [meta.get(key, "0") for meta in metas]
    return sum(int(text) for text in texts if text.isdecimal())


def warnings(job: Job) -> list[str]:
    """What the user must know about the counts, one sentence each."""
    found = [
        f"{number_of(number, 'launch')} ran uninstrumented: {reason}"
        for reason, number in job.sums.uninstrumented.items()
    ]
    if job.sums.device:
        found += [
            f"stack distances of {sentence}" for sentence in missing_distances(job.sums.device)
        ]
    metas = [process.meta for process in job.processes]
    if any("went_on" in meta for meta in metas):
        found.append(
            "MPI ranks are not ended after their window, because the launcher would treat that as "
            "a crash and kill the others; the program ran to its own end"
        )
    if any(meta.get("programs_that_launch", "0") != "0" for meta in metas):
        found.append(
            "kernels of this program can launch kernels; no engine counts those, and their time "
            "belongs to the slice of the launch that caused them"
        )
    if unknown := {meta.get("launch_calls_not_understood", "") for meta in metas} - {""}:
        found.append(
            f"launches by functions newer than xpuprof were not seen: {', '.join(sorted(unknown))}"
        )
    if unseen := _sum(metas, "kernels_without_launch"):
        found.append(
            f"{number_of(unseen, 'kernel')} ran without a launch that was seen: the device "
            "launched them, or graphs that were made before recording began"
        )
    if timeless := _sum(metas, "kernels_without_times"):
        found.append(
            f"CUPTI gave no times for {number_of(timeless, 'kernel')}, as when its device memory "
            "is used up after millions of them; record a --window"
        )
    chosen = job.sums.left_out
    if nothing := none_chosen(job.execution):
        found.append(nothing)
    elif chosen:
        found.append(
            f"--kernels left out {number_of(chosen, 'launch')}; only kernel name, grid and CPU "
            "vector (if a CPU engine ran) are known for their slices"
        )
    return [*found, *_nothing_counted(job)]


def _nothing_counted(job: Job) -> list[str]:
    """A sentence if no code passed the filters; else empty."""
    filters = job.execution.record.filters
    narrowed = [name for name in _OF_CODE if name in filters]
    if job.sums.cpu_instructions or not narrowed or job.execution.record.cpu_engine == "none":
        return []
    asked = "; ".join(f"{name.replace('_', ' ')} {_listed(filters[name])}" for name in narrowed)
    return [f"the CPU engine counted nothing: no code that ran passes its filters ({asked})"]


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def missing_distances(device: DeviceAccesses) -> list[str]:
    """What the distances of device accesses lack, one phrase per reason."""
    lacking = {why: getattr(device, name) for name, why in _LACKS.items()}
    return [f"{number_of(n, 'launch')} {why}" for why, n in lacking.items() if n]
