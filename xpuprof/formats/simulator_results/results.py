"""Per-region results of a simulator or a measurement: CSV and JSON, and the dispatch to the readers
of gem5's and Accel-Sim's own output.

A region is named by `region` (its place in the selection, from 1, as every export numbers it), by
`slice`, or by `kernel` and `call`, of several processes with `process` (rank0). Every other column
is a metric.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from xpuprof.errors import InputError
from xpuprof.formats.simulator_results import accelsim_log, gem5_stats
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS, LaunchIndex

Metrics = dict[str, float]
Found = tuple["int | None", Metrics]
Results = dict[int, Metrics]
"""Metrics of each representative, by its place in `Selection.representatives` (from 0)."""

NAMES = ("region", "slice", "kernel", "call", "process")


def read_results(paths: Iterable[str | Path], selection: Selection) -> Results:
    """Results of all representatives from one or several files, each `FILE` or `REGION=FILE`.

    Raises InputError in one sentence: unreadable file, unknown region, a region twice, a value that
    is no finite number, a region without result.
    """
    results: dict[int, tuple[Metrics, bool]] = {}
    for path in paths:
        region, file = _named(str(path), selection)
        found, is_table = _read(file, selection)
        if region is not None:
            if len(found) != 1:
                raise InputError(f"{file} holds {len(found)} results; one is wanted for a region")
            found = [(region, found[0][1])]
        for place, metrics in found:
            if place is None:
                raise InputError(
                    f"{file} holds one result for {len(selection.representatives)} regions; name "
                    f"its region, as in --results 1={file}"
                )
            if place in results:
                raise InputError(
                    f"{file}: {_region(place, selection)} has two results; give each region once"
                )
            results[place] = (metrics, is_table)
    return _complete(results, selection)


def _named(text: str, selection: Selection) -> tuple[int | None, Path]:
    region, mark, file = text.partition("=")
    if mark and region.isdigit() and not Path(text).exists():
        return _place_of_region(file, int(region), selection), Path(file)
    return None, Path(text)


def _read(file: Path, selection: Selection) -> tuple[list[Found], bool]:
    """Results with their places (None: the file does not say), and whether it is a table."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"cannot read the results {file}: {error.strerror}; name a CSV, JSON, gem5 stats.txt "
            "or Accel-Sim log, or one a region as REGION=FILE"
        ) from error
    read, is_table = _reader(text)
    found = read(str(file), text, selection)
    if not found:
        raise InputError(f"{file} holds no result; let the simulator write it again")
    return found, is_table


def _reader(text: str) -> tuple[Callable[[str, str, Selection], list[Found]], bool]:
    if gem5_stats.BEGIN in text:
        return _from_gem5, False
    if accelsim_log.KERNEL in text:
        return _from_accelsim, False
    return _from_json if text.lstrip().startswith(("{", "[")) else _from_csv, True


def _from_gem5(file: str, text: str, selection: Selection) -> list[Found]:
    dumps = gem5_stats.parse(file, text)
    if len(dumps) == len(selection.representatives):
        return list(enumerate(dumps))
    if len(dumps) == 1:
        return [(None, dumps[0])]
    raise InputError(
        f"{file} has {len(dumps)} dumps of statistics for {len(selection.representatives)} "
        "regions; dump once a region in their order, or name one file a region as "
        "--results REGION=FILE"
    )


def _from_accelsim(file: str, text: str, selection: Selection) -> list[Found]:
    kernels = accelsim_log.parse(file, text)
    with_kernel = [
        i for i, r in enumerate(selection.representatives) if r.end.kernel not in NO_KERNELS
    ]
    numbered = [k.launch for k in kernels]
    if any(r.process for r in selection.representatives):
        raise InputError(
            f"{file}: an Accel-Sim log numbers the kernels of one process; select with --processes "
            "each and estimate process by process"
        )
    if all(number is not None for number in numbered):
        by_launch = {selection.launch_ending(selection.representatives[i]): i for i in with_kernel}
        places = []
        for kernel in kernels:
            assert kernel.launch is not None
            launch = LaunchIndex(kernel.launch - 1)
            if launch not in by_launch:
                raise InputError(
                    f"{file}: kernel {kernel.launch} ({kernel.name}) is no region of the selection"
                )
            places.append(by_launch[launch])
    elif len(kernels) == len(with_kernel):
        places = with_kernel
    else:
        raise InputError(
            f"{file} has {len(kernels)} kernels for {len(with_kernel)} regions with a kernel; "
            "simulate the list that `xpuprof export --format accelsim` writes"
        )
    found: list[Found] = [
        (place, kernel.metrics) for place, kernel in zip(places, kernels, strict=True)
    ]
    # A simulator of kernels alone has nothing to do between the last one and program exit.
    nothing = dict.fromkeys(found[0][1], 0.0)
    return found + [
        (place, nothing)
        for place in range(len(selection.representatives))
        if place not in with_kernel
    ]


def _from_json(file: str, text: str, selection: Selection) -> list[Found]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid JSON: {error}") from error
    if isinstance(document, dict) and isinstance(document.get("regions"), list | dict):
        document = document["regions"]
    if isinstance(document, dict):
        document = [
            {"region": key, **value} if isinstance(value, dict) else value
            for key, value in document.items()
        ]
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise InputError(
            f"{file} is not a list of results: give objects with region (or slice, or kernel and "
            "call) and one number a metric"
        )
    return [_row(file, row, selection) for row in document]


def _from_csv(file: str, text: str, selection: Selection) -> list[Found]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(io.StringIO("\n".join(lines)))
    names = reader.fieldnames or []
    if not {"region", "slice", "kernel"} & set(names):
        raise InputError(
            f"{file} names no regions: its first line must have a column region, slice, or kernel "
            "and call"
        )
    if len(names) != len(set(names)):
        raise InputError(f"{file}: a column occurs twice in its first line")
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise InputError(f"{file}: line {reader.line_num} has not as many values as columns")
        rows.append(_row(file, row, selection))
    return rows


def _row(file: str, row: Mapping[str, Any], selection: Selection) -> Found:
    place = _place(file, row, selection)
    metrics = {
        str(name): _number(file, name, value, _region(place, selection))
        for name, value in row.items()
        if name not in NAMES
    }
    if not metrics:
        raise InputError(f"{file}: {_region(place, selection)} has no metric")
    return place, metrics


def _place(file: str, row: Mapping[str, Any], selection: Selection) -> int:
    if "region" in row:
        return _place_of_region(file, _whole(file, "region", row["region"]), selection)
    if "slice" in row:
        number = _whole(file, "slice", row["slice"])
        for place, r in enumerate(selection.representatives):
            if r.slice == number:
                return place
        raise InputError(f"{file}: slice {number} is no region of the selection")
    if "kernel" in row and "call" in row:
        marker = (str(row["kernel"]), _whole(file, "call", row["call"]))
        found = [
            place
            for place, r in enumerate(selection.representatives)
            if (r.end.kernel, r.end.call) == marker
            and row.get("process") in (None, _process(selection, r.process))
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{file}: kernel {marker[0]}, call {marker[1]} is in several processes; name it in "
                "a column process, as rank0"
            )
        raise InputError(
            f"{file}: kernel {marker[0]}, call {marker[1]} is no region of the selection"
        )
    raise InputError(f"{file}: a result names no region (region, slice, or kernel and call)")


def _process(selection: Selection, number: int) -> str:
    processes = selection.identity.get("processes", [])
    return str(processes[number]["label"]) if number < len(processes) else ""


def _place_of_region(file: str, region: int, selection: Selection) -> int:
    if not 1 <= region <= len(selection.representatives):
        raise InputError(
            f"{file}: region {region} is not in the selection, which has regions 1 to "
            f"{len(selection.representatives)}"
        )
    return region - 1


def _whole(file: str, name: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise InputError(f"{file}: {name} {value!r} is no whole number") from error


def _number(file: str, name: Any, value: Any, region: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{file}: {name} of {region} is {value!r}, which is no finite number")
    return number


def _complete(results: dict[int, tuple[Metrics, bool]], selection: Selection) -> Results:
    """Every region with the same metrics; what a simulator printed for some regions alone (a rate
    that is 0/0 in the others) is left out, what a table leaves out is an error."""
    for place in range(len(selection.representatives)):
        if place not in results:
            raise InputError(
                f"{_region(place, selection)} has no result; give results for all "
                f"{len(selection.representatives)} regions"
            )
    common = set.intersection(*(set(m) for m, _ in results.values()))
    for place, (metrics, is_table) in sorted(results.items()):
        others = {name for m, table in results.values() if table for name in m}
        lacking = sorted((others if is_table else set()) - metrics.keys())
        if lacking:
            raise InputError(
                f"{_region(place, selection)} has no {lacking[0]}; give every metric for every "
                "region"
            )
    if not common:
        raise InputError("the regions' results have no metric in common")
    return {place: {n: v for n, v in m.items() if n in common} for place, (m, _) in results.items()}


def _region(place: int, selection: Selection) -> str:
    end = selection.representatives[place].end
    return f"region {place + 1} ({end.kernel}, call {end.call})"
