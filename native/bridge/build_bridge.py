# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the cffi module `xpuprof._bridge`: build_bridge.py OUTPUT.c

Python sees what bridge_api.h declares, and every enum of xpuprof/trace_format.h; the compiler gives
the values.
"""

import re
import sys
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent


def enums(header: str) -> str:
    """Declarations of the header's enums, named or not, without the values."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    found = []
    for name, body in re.findall(r"\benum (\w*)\s*\{(.*?)\};", code, re.DOTALL):
        constants = [entry.split("=")[0].strip() for entry in body.split(",") if entry.strip()]
        if name:
            found.append(f"enum {name} {{ {', '.join(constants)}, ... }};")
        else:
            found += [f"#define {constant} ..." for constant in constants]
    return "\n".join(found)


ffi = FFI()
ffi.cdef((HERE / "bridge_api.h").read_text())
ffi.cdef(enums((HERE.parent / "include/xpuprof/trace_format.h").read_text()))
ffi.set_source("xpuprof._bridge", '#include "bridge.h"', py_limited_api=True)
ffi.emit_c_code(sys.argv[1])
