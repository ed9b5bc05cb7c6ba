# SPDX-License-Identifier: Apache-2.0
"""rocprofv3's database (rocpd) of the chosen launches."""

from __future__ import annotations

from xpuprof.formats.format import ResultReader
from xpuprof.formats.importers import rocpd
from xpuprof.formats.simulator_results import profiled

FORMAT = ResultReader(
    name="rocpd",
    help="rocprofv3's database (rocpd) of the chosen launches",
    read=lambda source, selection: profiled.read(rocpd.FORMAT, source, selection),
    mark="rocpd_kernel_dispatch",
    kernels=True,
)
