# SPDX-License-Identifier: Apache-2.0
"""rocprofiler-compute's pmc_perf.csv of the chosen launches."""

from __future__ import annotations

from xpuprof.formats.format import ResultReader
from xpuprof.formats.importers import rocprof_compute
from xpuprof.formats.simulator_results import profiled

FORMAT = ResultReader(
    name="rocprof-compute",
    help="rocprofiler-compute's pmc_perf.csv of the chosen launches",
    read=lambda source, selection: profiled.read(rocprof_compute.FORMAT, source, selection),
    mark="Dispatch_ID,",
    kernels=True,
    file="pmc_perf.csv",
)
