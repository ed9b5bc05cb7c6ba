# SPDX-License-Identifier: Apache-2.0
"""Struct layouts and enums of the native headers, taken from cffi and not repeated here.

bridge_api.h has the structs, xpuprof/trace_format.h the enums (build_bridge.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xpuprof._bridge import ffi, lib


def _enum(name: str, prefix: str) -> dict[str, int]:
    """Value of each constant, by its name without the prefix."""
    constants = ffi.typeof(f"enum {name}").relements
    return {key.removeprefix(prefix): int(value) for key, value in constants.items()}


EVENTS, CPU = int(lib.XP_STREAM_EVENTS), int(lib.XP_STREAM_CPU)
TAGS = {EVENTS: _enum("xp_event_tag", "XP_EV_"), CPU: _enum("xp_cpu_tag", "XP_CPU_")}
LAUNCH_FLAGS = _enum("xp_launch_flag", "XP_LAUNCH_")
LDV_FLAGS = _enum("xp_ldv_flag", "XP_LDV_")
LDV_BUCKETS = int(lib.XP_LDV_BUCKETS)
"""The last bucket holds first touches."""
HOST = _enum("xp_host", "XP_HOST_")
MIX = _enum("xp_mix", "XP_MIX_")
"""Column of each instruction class in `GpuVectors.mix`, and COUNT."""


def _format(ctype: Any) -> Any:
    """The numpy dtype of a C type: unsigned numbers, and arrays and structs of them."""
    if ctype.kind == "struct":
        names, fields = zip(*ctype.fields, strict=True)
        return np.dtype(
            {
                "names": names,
                "formats": [_format(field.type) for field in fields],
                "offsets": [field.offset for field in fields],
                "itemsize": ffi.sizeof(ctype),
            }
        )
    if ctype.kind == "array":
        return (_format(ctype.item), ctype.length)
    return f"<u{ffi.sizeof(ctype)}"


@dataclass(frozen=True)
class Table:
    """An array of xp_arrays: its length field in xp_counts and its rows' dtype."""

    length: str
    dtype: np.dtype[Any]
    pointer: Any
    """The C type."""


def _table(name: str, pointer: Any) -> Table:
    counts = dict(ffi.typeof("xp_counts").fields)
    length = name if name in counts else name.partition("_")[0] + "_pairs"
    return Table(length, np.dtype(_format(pointer.item)), pointer)


TABLES = {name: _table(name, field.type) for name, field in ffi.typeof("xp_arrays").fields}
