# SPDX-License-Identifier: Apache-2.0
"""The rank of xpuprof itself, when a launcher starts one xpuprof per rank:
`mpirun -n 2 xpuprof profile -- ./app`."""

from __future__ import annotations

import os
from collections.abc import Mapping

_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Rank and number of ranks: the pairs in part.h's list. A rank alone does not prove a launcher (a
batch script has SLURM_PROCID, too)."""


def own_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """Our rank among several; None for a single process."""
    for rank, size in _VARIABLES:
        number, ranks = environment.get(rank, ""), environment.get(size, "")
        if number.isdigit() and ranks.isdigit():
            return int(number) if int(ranks) > 1 else None
    return None
