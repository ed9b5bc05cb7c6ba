# SPDX-License-Identifier: Apache-2.0
"""rocprofiler-compute's pmc_perf.csv: a row a launch, a column a counter. It joins several runs of
the program, so that columns of the launch repeat with a number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import Columns, Places, Table, numbers, write
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

KERNEL, LAUNCH, START, END = "Kernel_Name", "Dispatch_ID", "Start_Timestamp", "End_Timestamp"
GRID, BLOCK = "Grid_Size", "Workgroup_Size"
_ABOUT = re.compile(
    r"(Dispatch_ID|Kernel_Name|GPU_ID|Grid_Size|Workgroup_Size|LDS_Per_Workgroup|XCC_Index"
    r"|Scratch_Per_Workitem|Arch_VGPR|Accum_VGPR|SGPR|wave_size|obj|sig|Correlation_ID|pid|tid"
    r"|queue-\w+|Queue_ID|\w+_Timestamp)(_\d+)?",
    re.IGNORECASE,
)
"""Columns that describe the launch and count nothing."""
NS = 1e-9
ADVICE = "profile again with `rocprof-compute profile`"


def load(source: Source, writer: ImportWriter) -> None:
    """Import counters. Raises InputError when there is no launch or a time is missing."""
    with source.lines() as lines:
        table = Table.csv(source, lines)
        for name in (KERNEL, START, END):
            if name not in table.header:
                source.refuse(f"has no column {name}; {ADVICE}")
        writer.units["gpu_time"] = "s"
        places = Places(
            kernel=KERNEL,
            time="duration",
            unit=NS,
            grid=[name for name in (GRID,) if name in table.header],
            block=[name for name in (BLOCK,) if name in table.header],
            work_items=True,
        )
        others = ["duration", *filter(_ABOUT.fullmatch, table.header)]
        chunks = map(_launches, table.chunks())
        write(source, writer, chunks, places, others=others, advice=ADVICE)


def _launches(columns: Columns) -> Columns:
    """With durations, and names without the suffix of the code object's symbol."""
    kernels = [name.removesuffix(" [clone .kd]") for name in columns[KERNEL]]
    duration = (numbers(columns[END]) - numbers(columns[START])).tolist()
    return {**columns, KERNEL: kernels, "duration": duration}


def _match(head: Head) -> Match:
    return Match.YES if {LAUNCH, KERNEL, START, END} <= head.columns else Match.NO


FORMAT = Importer(
    name="rocprof-compute",
    help="rocprofiler-compute's pmc_perf.csv",
    load=load,
    match=_match,
    aliases=("rocprofiler-compute", "omniperf"),
)
