# SPDX-License-Identifier: Apache-2.0
"""The folder of vectors written by the reference implementation of XPU-Point.

`T.<tid>.bb`: CPU, per slice a comment `# Slice ending at kernel: K call: N` and a line
`T:block:instructions :block:instructions ...`. `thread.bbv`: GPU, per slice the same comment and a
line `tid<warp>: T:block:count ...` a warp. A timer file (`<i> OnComplete <k> TSC x`) gives the
boundaries in ticks. Its GPU block numbers restart in every kernel, so a block here is (kernel,
number).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import LARGEST
from xpuprof.inputs import Source, finite, whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from scipy import sparse

    from xpuprof.trace.imported import ImportWriter

_ENDS = re.compile(r"\s*GPU_(?P<what>Init|Fini)\s*:\s*TSC\s+(?P<tick>\d+)")
MOST = (1 << 62) - 1
"""Largest block number, count or tick."""
SLICE_COST, CELL_COST, TICK_COST = 512, 400, 64
"""Memory in bytes of a slice, a non-zero of the vectors and a time stamp."""
Key = tuple[str, int]
Entries = list[tuple[int, float]]


def load(source: Source, writer: ImportWriter) -> None:
    """Import the folder. Raises InputError when it has no vectors, is damaged or inconsistent."""
    folder = source.path
    cpu_files = sorted([*folder.glob("T.*.bb"), *folder.glob("T.*.bb.gz")])
    gpu_file = next((f for f in (folder / "thread.bbv", folder / "global.bbv") if f.exists()), None)
    if not cpu_files and gpu_file is None:
        source.refuse("has neither T.<thread>.bb nor thread.bbv; name the folder that holds them")
    order: dict[Key, int] = {}
    cpu: dict[tuple[int, int], float] = {}
    for file in cpu_files:
        for key, line in vectors(part := source.part(file)):
            row = order.setdefault(key, len(order))
            for block, value in entries(part, line):
                cpu[row, block] = cpu.get((row, block), 0.0) + value
    gpu: dict[tuple[int, tuple[str, int]], float] = {}
    warps: dict[int, int] = {}
    if gpu_file is not None:
        known = len(order)
        for key, line in vectors(part := source.part(gpu_file)):
            row = order.setdefault(key, len(order))
            warps[row] = warps.get(row, 0) + line.lstrip().startswith("tid")
            for block, value in entries(part, line):
                cell = (row, (key[0], block))
                gpu[cell] = gpu.get(cell, 0.0) + value
        if cpu_files and len(order) > known:
            part.refuse(
                f"has {len(order) - known} slices that no T.<thread>.bb has: they come from "
                "different runs; take the files of one run"
            )
    if not order:
        source.refuse("holds no slice: no line `# Slice ending at kernel: ...`; record it again")
    _write(source, writer, order, cpu, gpu, warps)


def _write(
    source: Source,
    writer: ImportWriter,
    order: dict[Key, int],
    cpu: dict[tuple[int, int], float],
    gpu: dict[tuple[int, tuple[str, int]], float],
    warps: dict[int, int],
) -> None:
    import numpy as np  # imported late: `--help` lists formats without it

    count = len(order)
    columns: dict[str, npt.NDArray[Any]] = {
        "kernel": writer.codes("kernel", [kernel for kernel, _ in order]),
        "call": np.array([call for _, call in order], dtype=np.int32),
    }
    for side, cells in (("cpu", cpu), ("gpu", gpu)):
        if cells:
            matrix = _matrix(cells, count)
            columns[f"{side}_instructions"] = np.asarray(matrix.sum(axis=1)).ravel()
            writer.vectors(side, matrix)
    if any(warps.values()):
        columns["warps"] = np.array([warps.get(i, 0) for i in range(count)], dtype=np.float64)
    ticks = boundaries(source)
    if ticks is not None:
        if len(ticks) - 1 != count:
            source.refuse(
                f"has a timer file of {len(ticks) - 1} slices and vectors of {count}: they come "
                "from different runs; take the files of one, or remove the timer file"
            )
        columns["cycles"] = np.diff(np.maximum.accumulate(ticks)).astype(np.float64)
        writer.units["cycles"] = "tick"
    writer.append(columns)


def vectors(file: Source) -> Iterator[tuple[Key, str]]:
    """(slice's end, line) of every vector line; other lines are skipped."""
    key: Key | None = None
    with file.lines() as lines:
        for line in lines:
            if end := _slice_end(line):
                call = whole(end[1], 0, LARGEST)
                if call is None:
                    file.refuse(f"is damaged: call {end[1][:40]}; copy it again")
                file.hold(SLICE_COST)
                key = (end[0], call)
                yield key, ""
            elif "T:" in line and not line.startswith(("#", "M:")):
                if key is None:
                    file.refuse(
                        "has a vector before the first `# Slice ending at kernel`; its beginning "
                        "is missing: copy it again"
                    )
                yield key, line


def _slice_end(line: str) -> tuple[str, str] | None:
    """Kernel and call of `# Slice ending at kernel: K call: N`. Regular expressions would take
    quadratic time on blanks."""
    before, mark, rest = line.partition("Slice ending at kernel:")
    kernel, called, call = rest.rpartition("call:")
    own = before[:1] == "#" and not before[1:].strip() and mark and called
    if own and kernel[-1:].isspace() and call.strip().isdecimal():
        return kernel.strip(), call.strip()
    return None


def _completion(line: str) -> str | None:
    """The tick of `<i> OnComplete <kernel> TSC <tick>`."""
    fields = line.split(None, 2)
    if len(fields) < 3 or not fields[0].isdecimal() or fields[1] != "OnComplete":
        return None
    _, mark, after = fields[2].rpartition("TSC ")
    tick = after.split(None, 1)
    return tick[0] if mark and tick and tick[0].isdecimal() else None


def entries(file: Source, line: str) -> Entries:
    """(block, value) pairs of a vector line."""
    _, _, body = line.partition("T:")
    result: Entries = []
    for part in body.replace(" :", " ").split():
        block, _, value = part.partition(":")
        number, count = whole(block, 0, MOST), finite(value)
        if number is None or count is None or not 0 <= count <= MOST:
            file.refuse(f"is damaged: {part[:80]!r} is not block:count; copy it again")
        result.append((number, count))
    file.hold(CELL_COST * len(result))
    return result


def boundaries(source: Source) -> npt.NDArray[np.int64] | None:
    """Ticks of start, completions and end, from the first timer file; None without one."""
    import numpy as np

    for path in sorted(source.path.glob("*")):
        if not path.is_file() or path.suffix in (".bb", ".bbv", ".gz", ".csv"):
            continue
        ends: dict[str, int] = {}
        ticks: list[int] = []
        file = source.part(path)
        with file.lines() as lines:
            for line in lines:
                if tick := _completion(line):
                    ticks.append(_tick(file, tick))
                elif found := _ENDS.match(line):
                    ends[found["what"]] = _tick(file, found["tick"])
        if ticks and len(ends) == 2:
            return np.array([ends["Init"], *ticks, ends["Fini"]])
    return None


def _tick(file: Source, text: str) -> int:
    tick = whole(text, 0, MOST)
    if tick is None:
        file.refuse(f"is damaged: time stamp {text[:40]}; copy it again")
    file.hold(TICK_COST)
    return tick


def _matrix(cells: Mapping[tuple[int, Any], float], count: int) -> sparse.csr_matrix:
    import numpy as np
    from scipy import sparse

    names = {block: i for i, block in enumerate(sorted({block for _, block in cells}))}
    rows = np.fromiter((row for row, _ in cells), np.int64, len(cells))
    columns = np.fromiter((names[block] for _, block in cells), np.int64, len(cells))
    values = np.fromiter(cells.values(), np.float64, len(cells))
    return sparse.csr_matrix((values, (rows, columns)), shape=(count, len(names)))


def _match(head: Head) -> Match:
    folder = head.path
    own = folder.is_dir() and (
        any(folder.glob("T.*.bb*")) or (folder / "thread.bbv").exists() or any(folder.glob("*.bb"))
    )
    return Match.YES if own else Match.NO


FORMAT = Importer(
    name="xpupoint",
    help="the folder of vectors that the reference implementation writes",
    load=load,
    match=_match,
)
