"""GPU-Point: XPU-Point on the GPU part alone (section VI-A)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xpuprof.methods import xpu_point
from xpuprof.methods.declaration import CLUSTERING, Method, Need
from xpuprof.selection.selection import Selection

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process


def select(process: Process, *, seed: int, **options: Any) -> Selection:
    """As `xpu_point.select`, without the CPU part."""
    return xpu_point.select(process, seed=seed, method="gpu-point", **options)


METHOD = Method(
    name="gpu-point",
    help="Clusters of device block vectors alone (XPU-Point, section VI-A).",
    select=select,
    needs=(Need.VECTORS,),
    options=CLUSTERING,
    bound="target_error",
    clusters=True,
)
