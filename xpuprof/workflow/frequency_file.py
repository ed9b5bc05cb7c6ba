# SPDX-License-Identifier: Apache-2.0
"""Select from a SimPoint frequency vector file (.bb)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpuprof.formats.exporters.simpoint import files, write_simpoints
from xpuprof.formats.frequency import INTERVAL, read_frequency_file
from xpuprof.formats.output import made_folder, refuse_existing
from xpuprof.methods import simpoint
from xpuprof.workflow.chosen import Chosen


def select_frequency_file(
    source: Path,
    *,
    seed: int,
    options: Mapping[str, Any],
    fixed_length: bool = True,
    output: Path | None = None,
    force: bool = False,
) -> Chosen:
    """Select from the file and, with `output`, write SimPoint's files and selection.json there."""
    begin = time.perf_counter()
    if output is not None:
        whole, base = output / "selection.json", output / _stem(source)
        for path in (whole, *files(base)):
            refuse_existing(path, force)
    vectors = read_frequency_file(source)
    selection, distance = simpoint.select(
        vectors.row_start,
        vectors.dimension,
        vectors.value,
        seed=seed,
        marker=INTERVAL,
        fixed_length=fixed_length,
        **options,
    )
    seconds = time.perf_counter() - begin
    if output is not None:
        made_folder(output)
        selection.write(whole, force)
        write_simpoints(selection, base, distance, force)
    return Chosen(str(source), selection, seconds)


def _stem(source: Path) -> str:
    return source.name.removesuffix(".gz").removesuffix(".bb")
