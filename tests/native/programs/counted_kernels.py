# SPDX-License-Identifier: Apache-2.0
"""counted_kernels.py FILE [SIZE]: launches every kernel of FILE, which take three buffers of SIZE x
SIZE numbers and SIZE, as those of tools/bench/kernels do."""

import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

size = int(sys.argv[2]) if len(sys.argv) > 2 else 32
context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, Path(sys.argv[1]).read_text()).build()
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
for name in program.kernel_names.split(";"):
    random = np.random.default_rng(1)
    numbers = [random.random(size * size, np.float32) for _ in range(3)]
    buffers = [cl.Buffer(context, flags, hostbuf=each) for each in numbers]
    kernel = cl.Kernel(program, name)
    kernel.set_args(*buffers, np.int32(size))
    local = (16, 16) if name == "gemm_tiled" else (32, 8)
    cl.enqueue_nd_range_kernel(queue, kernel, (size, size), local).wait()
