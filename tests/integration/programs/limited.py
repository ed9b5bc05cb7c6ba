# SPDX-License-Identifier: Apache-2.0
"""Launches a kernel of a long source after it has limited the size of files."""

import resource

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void f(global int *p) { if (p[0] > 3) p[get_global_id(0)] = 7; }
"""
LONG, LIMIT = 1 << 20, 300_000

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
numbers = np.full(64, 5, np.int32)
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=numbers)
# pyopencl's own cache would hand PoCL a binary.
program = cl.Program(context, SOURCE + "//" + "x" * LONG + "\n").build(cache_dir=False)
kernel = cl.Kernel(program, "f")
kernel.set_args(buffer)
resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
cl.enqueue_nd_range_kernel(queue, kernel, (64,), (16,))
cl.enqueue_copy(queue, numbers, buffer)
print(numbers.sum())
