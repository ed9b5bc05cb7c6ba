# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the cffi module `xpuprof._select`: build_select.py OUTPUT.c"""

import sys
from pathlib import Path

from cffi import FFI

ffi = FFI()
ffi.cdef((Path(__file__).parent / "select_api.h").read_text())
ffi.set_source("xpuprof._select", '#include "select.h"', py_limited_api=True)
ffi.emit_c_code(sys.argv[1])
