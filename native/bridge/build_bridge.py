"""Writes the C source of the cffi module `xpuprof._bridge`: build_bridge.py OUTPUT.c"""

import sys
from pathlib import Path

from cffi import FFI

ffi = FFI()
ffi.cdef((Path(__file__).parent / "bridge_api.h").read_text())
ffi.set_source("xpuprof._bridge", '#include "bridge.h"', py_limited_api=True)
ffi.emit_c_code(sys.argv[1])
