"""The vectors that the reference implementation of XPU-Point writes into a folder.

`T.<tid>.bb`: CPU, per slice a comment `# Slice ending at kernel: K call: N` and a line
`T:block:instructions :block:instructions ...`. `thread.bbv`: GPU, per slice the same comment and a
line `tid<warp>: T:block:count ...` a warp. A timer file (`<i> OnComplete <k> TSC x`) gives the
boundaries in ticks. Its GPU blocks are numbered anew in every kernel, so a block here is (kernel,
number).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from xpuprof.errors import InputError
from xpuprof.formats.importers.table import open_text
from xpuprof.trace.imported import ImportWriter

_SLICE = re.compile(r"#\s*Slice ending at kernel:\s*(?P<kernel>.*?)\s+call:\s*(?P<call>\d+)\s*$")
_COMPLETE = re.compile(r"\s*\d+\s+OnComplete\s+.*\bTSC\s+(?P<tick>\d+)")
_ENDS = re.compile(r"\s*GPU_(?P<what>Init|Fini)\s*:\s*TSC\s+(?P<tick>\d+)")
Key = tuple[str, int]
Entries = list[tuple[int, float]]


def load(source: Path, writer: ImportWriter) -> None:
    """Import the folder. InputError when it has no vectors, is damaged or its parts disagree."""
    cpu_files = sorted([*source.glob("T.*.bb"), *source.glob("T.*.bb.gz")])
    gpu_file = next((f for f in (source / "thread.bbv", source / "global.bbv") if f.exists()), None)
    if not cpu_files and gpu_file is None:
        raise InputError(
            f"{source} has neither T.<thread>.bb nor thread.bbv; name the folder that holds them"
        )
    order: dict[Key, int] = {}
    cpu: dict[tuple[int, int], float] = {}
    for file in cpu_files:
        for key, line in vectors(file):
            row = order.setdefault(key, len(order))
            for block, value in entries(file, line):
                cpu[row, block] = cpu.get((row, block), 0.0) + value
    gpu: dict[tuple[int, tuple[str, int]], float] = {}
    warps: dict[int, int] = {}
    if gpu_file is not None:
        known = len(order)
        for key, line in vectors(gpu_file):
            row = order.setdefault(key, len(order))
            warps[row] = warps.get(row, 0) + line.lstrip().startswith("tid")
            for block, value in entries(gpu_file, line):
                cell = (row, (key[0], block))
                gpu[cell] = gpu.get(cell, 0.0) + value
        if cpu_files and len(order) > known:
            raise InputError(
                f"{gpu_file} has {len(order) - known} slices that no T.<thread>.bb has: "
                "they are of different runs; take the files of one run"
            )
    if not order:
        raise InputError(
            f"{source} holds no slice: no line `# Slice ending at kernel: ...`; record it again"
        )
    _write(source, writer, order, cpu, gpu, warps)


def _write(
    source: Path,
    writer: ImportWriter,
    order: dict[Key, int],
    cpu: dict[tuple[int, int], float],
    gpu: dict[tuple[int, tuple[str, int]], float],
    warps: dict[int, int],
) -> None:
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
            raise InputError(
                f"the timer file in {source} has {len(ticks) - 1} slices, the vectors {count}: "
                "they are of different runs; take the files of one, or leave the timer file away"
            )
        columns["cycles"] = np.diff(np.maximum.accumulate(ticks)).astype(np.float64)
        writer.units["cycles"] = "tick"
    writer.append(columns)


def vectors(file: Path) -> Iterator[tuple[Key, str]]:
    """(slice's end, line) of every vector line; lines of other kinds are passed over."""
    key: Key | None = None
    with open_text(file) as text:
        for line in text:
            found = _SLICE.match(line)
            if found:
                key = (found["kernel"], int(found["call"]))
                yield key, ""
            elif "T:" in line and not line.startswith(("#", "M:")):
                if key is None:
                    raise InputError(
                        f"{file}: a vector before the first `# Slice ending at kernel`; the file's "
                        "beginning is missing: copy it again"
                    )
                yield key, line


def entries(file: Path, line: str) -> Entries:
    """(block, value) pairs of a vector line."""
    _, _, body = line.partition("T:")
    result: Entries = []
    for part in body.replace(" :", " ").split():
        block, mark, value = part.partition(":")
        try:
            result.append((int(block), float(value)))
        except ValueError:
            raise InputError(f"{file}: {part!r} is not block:count; copy the file again") from None
        if not mark:
            raise InputError(f"{file}: {part!r} is not block:count; copy the file again")
    return result


def boundaries(source: Path) -> npt.NDArray[np.int64] | None:
    """Ticks of start, every completion and the end, from the first timer file there; else None."""
    for file in sorted(source.glob("*")):
        if not file.is_file() or file.suffix in (".bb", ".bbv", ".gz", ".csv"):
            continue
        ends: dict[str, int] = {}
        ticks: list[int] = []
        with open_text(file) as text:
            for line in text:
                if found := _COMPLETE.match(line):
                    ticks.append(int(found["tick"]))
                elif found := _ENDS.match(line):
                    ends[found["what"]] = int(found["tick"])
        if ticks and len(ends) == 2:
            return np.array([ends["Init"], *ticks, ends["Fini"]])
    return None


def _matrix(cells: Mapping[tuple[int, Any], float], count: int) -> sparse.csr_matrix:
    names = {block: i for i, block in enumerate(sorted({block for _, block in cells}))}
    rows = np.fromiter((row for row, _ in cells), np.int64, len(cells))
    columns = np.fromiter((names[block] for _, block in cells), np.int64, len(cells))
    values = np.fromiter(cells.values(), np.float64, len(cells))
    return sparse.csr_matrix((values, (rows, columns)), shape=(count, len(names)))
