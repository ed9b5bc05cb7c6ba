# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute's CSV of the chosen launches."""

from __future__ import annotations

from xpuprof.formats.format import ResultReader
from xpuprof.formats.importers import ncu
from xpuprof.formats.simulator_results import profiled

FORMAT = ResultReader(
    name="ncu",
    help="Nsight Compute's CSV of the chosen launches",
    read=lambda source, selection: profiled.read(ncu.FORMAT, source, selection),
    mark='"Kernel Name"',
    kernels=True,
)
