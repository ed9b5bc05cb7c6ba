# SPDX-License-Identifier: Apache-2.0
"""Select from a SimPoint frequency vector file (.bb)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpuprof.formats.exporters.simpoint import write_simpoints
from xpuprof.formats.frequency import INTERVAL, read_frequency_file
from xpuprof.formats.output import made_folder
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
        folder = made_folder(output)
        stem = source.name.removesuffix(".gz").removesuffix(".bb")
        selection.write(folder / "selection.json", force)
        write_simpoints(selection, folder / stem, distance, force)
    return Chosen(str(source), selection, seconds)
