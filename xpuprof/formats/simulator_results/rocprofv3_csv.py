# SPDX-License-Identifier: Apache-2.0
"""rocprofv3's CSV of the chosen launches."""

from __future__ import annotations

from xpuprof.formats.format import ResultReader
from xpuprof.formats.importers import rocprof
from xpuprof.formats.simulator_results import profiled

FORMAT = ResultReader(
    name="rocprofv3",
    help="rocprofv3's CSV of the chosen launches",
    read=lambda source, selection: profiled.read(rocprof.FORMAT, source, selection),
    mark='"Kernel_Name"',
    kernels=True,
)
