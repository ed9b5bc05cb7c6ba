# SPDX-License-Identifier: Apache-2.0
"""Per-region results of a simulator or a measurement: from files of any format declared in this
folder or by another package to the metrics of every region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import overload

from xpuprof.errors import InputError
from xpuprof.formats.format import Found, Match, Metrics, ResultReader
from xpuprof.formats.registry import all_result_readers
from xpuprof.formats.simulator_results.regions import Regions, region_name
from xpuprof.inputs import Source
from xpuprof.selection import parts
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS

WINDOW = 1 << 20
FIRST = 1 << 12
NO_RESULTS = ("weights.csv", "selection.json")
TABLES = (".csv", ".json")
TRACES = (".traceg", ".tracez", ".trace", ".xz")
"""Inputs of Accel-Sim, which are large."""
MOST_FILES = 10_000
"""Files of a folder that are looked at."""
Results = dict[int, Metrics]
"""Metrics of each representative, by its 0-based place in `Selection.representatives`."""


def read_results(paths: Iterable[str | Path], selection: Selection) -> Results:
    """Results of all representatives from one or several files, each `FILE` or `REGION=FILE`.

    Raises InputError for an unreadable file, an unknown, repeated or missing region, and a value
    that is not a finite number.
    """
    results: dict[int, tuple[Metrics, bool]] = {}
    kernels = True
    whole = _Part(selection, range(len(selection.representatives)))
    for region, source, reader, part in _given(paths, whole):
        kernels &= reader.kernels or _is_of_kernels(source.path)
        found, part = _read(reader, source, part, whole if region is None else part)
        if not found:
            source.refuse("holds no result; let the simulator write it again")
        for place, metrics in _placed(found, region, source, part):
            known = results.get(place, ({}, reader.table))[0]
            # A profiler runs the program once for each group of counters.
            if known and not (reader.kernels and metrics.keys() - known.keys()):
                source.refuse(
                    f"has a second result for {region_name(place, selection)}; give each region "
                    "once"
                )
            results[place] = ({**metrics, **known}, reader.table)
    if kernels and results:
        # A simulator or profiler of kernels has nothing between the last one and program exit.
        nothing = dict.fromkeys(next(iter(results.values()))[0], 0.0)
        for place, r in enumerate(selection.representatives):
            if r.end.kernel in NO_KERNELS:
                results.setdefault(place, (nothing, False))
    return _complete(results, selection)


def _is_of_kernels(path: Path) -> bool:
    """Whether the results lie below a list of kernels that `export` wrote."""
    return any((folder / NO_RESULTS[0]).exists() for folder in list(path.parents)[:2])


@dataclass(frozen=True)
class _Part:
    """What a file has results of: a selection, or one process of it, with its places there."""

    selection: Selection
    places: Sequence[int]


_Given = tuple[int | None, Source, ResultReader, _Part]
"""A file's region in its part if it is named, the file, its reader and its part."""


def _given(paths: Iterable[str | Path], whole: _Part) -> Iterator[_Given]:
    """Each file; a folder stands for the results in it. A folder named as a process of several, as
    `export` makes them, has the results of that process."""
    labels = _labels(whole.selection)
    for path in paths:
        region, source = _named(str(path), whole.selection)
        if region is not None:
            yield region, source, _recognised(source), whole
        elif source.path.is_dir():
            yield from _of_folder(source, whole, labels)
        else:
            number = labels.get(source.path.resolve().parent.name)
            yield None, source, _recognised(source), _part(whole, number)


def _of_folder(folder: Source, whole: _Part, labels: Mapping[str, int]) -> Iterator[_Given]:
    inside = {label: Source(folder.path / label) for label in labels}
    own = {label: _results_in(source) for label, source in inside.items() if source.path.is_dir()}
    if any(own.values()):
        for label in filter(own.get, own):
            yield from _inside(inside[label], own[label], _part(whole, labels[label]))
    else:
        number = labels.get(folder.path.resolve().name)
        yield from _inside(folder, _results_in(folder), _part(whole, number))


def _labels(selection: Selection) -> dict[str, int]:
    """The number of each process of several, by its label."""
    processes = selection.identity.processes
    several = len(processes) > 1
    return {own.label: number for number, own in enumerate(processes) if several}


def _part(whole: _Part, number: int | None) -> _Part:
    """What a process has of the selection, or all of it."""
    if number is None:
        return whole
    chosen = whole.selection
    places = [i for i, r in enumerate(chosen.representatives) if r.process == number]
    # No result is read by the launch sequence, which takes long to divide.
    chosen = replace(chosen, identity=replace(chosen.identity, sequence=None))
    return _Part(parts.part(chosen, number), places)


def _read(
    reader: ResultReader, source: Source, part: _Part, whole: _Part
) -> tuple[list[Found], _Part]:
    """The results, and what their places are of. A table in a process's folder may have the numbers
    of the whole selection."""
    if reader.table and part is not whole:
        with suppress(InputError):
            return reader.read(source, whole.selection), whole
    return reader.read(source, part.selection), part


_Results = Mapping[str, list[tuple[Source, ResultReader]]]
"""Files by the name of their reader."""


def _results_in(folder: Source) -> _Results:
    """The results in a folder and its folders."""
    found: dict[str, list[tuple[Source, ResultReader]]] = {}
    files = (path for path in folder.path.rglob("*") if path.is_file())
    for path in sorted(islice(files, MOST_FILES)):
        source = Source(path)
        # The weights that `export` wrote there and the selection are tables, but no results.
        if path.name.endswith(NO_RESULTS) or path.suffix in TRACES:
            continue
        reader = _recognised(source, sure=True)
        # Many files begin like a table or like JSON; those of results are called so.
        is_result = reader and (reader.mark or path.suffix in TABLES)
        if reader and is_result and path.name == (reader.file or path.name):
            found.setdefault(reader.name, []).append((source, reader))
    return found


def _inside(folder: Source, found: _Results, part: _Part) -> Iterator[_Given]:
    """The results found in a folder, all of one simulator. With several files of one region each, a
    number in their paths is the region (`_region_numbers`)."""
    if not found:
        folder.refuse(f"holds no results that are known ({', '.join(all_result_readers())})")
    if len(found) > 1:
        named = " and ".join(f"{name} ({own[0][0].path.name})" for name, own in found.items())
        folder.refuse(f"holds results of {named}; name the files of one")
    (results,) = found.values()
    numbers = _region_numbers([source.path.relative_to(folder.path) for source, _ in results])
    per_region = bool(numbers) and not results[0][1].kernels
    for i, (source, reader) in enumerate(results):
        place = Regions(source, part.selection).place(numbers[i]) if per_region else None
        yield place, source, reader, part


def _region_numbers(paths: list[Path]) -> list[int]:
    """The first number in which the paths differ, of each: others, as in `m5out` or of a version,
    are the same in all. Empty if there is none."""
    numbers = [[int(digits[:18]) for digits in re.findall(r"\d+", str(path))] for path in paths]
    places = zip(*numbers, strict=False)  # a path may have further numbers
    return next((list(found) for found in places if len(set(found)) > 1), [])


def _named(text: str, selection: Selection) -> tuple[int | None, Source]:
    number, mark, file = text.partition("=")
    if not mark or Path(text).exists():
        return None, _source(text)
    if not (number.isascii() and number.isdigit()):
        raise InputError(f"{text}: {number!r} is no region; name it by its number, as in 1={file}")
    source = _source(file)
    return Regions(source, selection).place(int(number[:18])), source


def _source(file: str) -> Source:
    advice = "name what the simulator wrote (xpuprof help estimate lists the kinds), or REGION=FILE"
    return Source(Path(file), advice)


def _placed(
    found: list[Found], region: int | None, source: Source, part: _Part
) -> list[tuple[int, Metrics]]:
    """The results with their places in the whole selection; `region` is the one that was named."""
    if region is not None and len(found) != 1:
        source.refuse(f"holds {len(found)} results; name a file of one result for a region")
    placed = []
    for place, metrics in found:
        known = place if region is None else region
        if known is None:
            source.refuse(
                f"holds one result for {len(part.places)} regions; name its region, "
                f"as in --results {parts.first_region(part.selection)}={source}"
            )
        placed.append((part.places[known], metrics))
    return placed


@overload
def _recognised(source: Source) -> ResultReader: ...
@overload
def _recognised(source: Source, sure: bool) -> ResultReader | None: ...
def _recognised(source: Source, sure: bool = False) -> ResultReader | None:
    """The reader whose mark is in the file, else the one that matches its first line; None if it
    should be `sure` and is not."""
    readers = list(all_result_readers().values())
    marks = [reader.mark for reader in readers if reader.mark]
    first = before = ""
    with source.text() as text:
        while window := text.read(WINDOW):
            for reader in readers:
                if reader.mark and reader.mark in before + window:
                    return reader
            first = first or window.lstrip()[:FIRST].partition("\n")[0]
            if "\0" in window:
                break
            before = window[-max(map(len, marks)) :]
    if not sure and (window or not first):
        kind = "is not text" if window else "is empty"
        source.refuse(f"{kind}; name the file that the simulator wrote, or let it write it again")
    best = max(readers, key=lambda reader: reader.match(first))
    return None if sure and best.match(first) is not Match.YES else best


def _complete(results: dict[int, tuple[Metrics, bool]], selection: Selection) -> Results:
    """Every region with the same metrics. Metrics that a simulator printed for only some regions (a
    rate that is 0/0 in the others) are dropped; a gap in a table is an error."""
    for place in range(len(selection.representatives)):
        if place not in results:
            end = selection.representatives[place].end
            raise InputError(
                f"{region_name(place, selection)} has no result; "
                + (
                    "give it 0 of every metric if the simulator runs kernels only (in a table of "
                    f"kernels and calls: {NO_KERNELS[end.kernel]}, {end.call})"
                    if end.kernel in NO_KERNELS
                    else f"give results for all {len(selection.representatives)} regions"
                )
            )
    common = set.intersection(*(set(m) for m, _ in results.values()))
    for place, (metrics, is_table) in sorted(results.items()):
        others = {name for m, table in results.values() if table for name in m}
        lacking = sorted((others if is_table else set()) - metrics.keys())
        if lacking:
            raise InputError(
                f"{region_name(place, selection)} has no {lacking[0]}; give every metric for every "
                "region"
            )
    if not common:
        raise InputError("the regions' results have no metric in common")
    return {place: {n: v for n, v in m.items() if n in common} for place, (m, _) in results.items()}
