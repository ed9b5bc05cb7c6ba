# SPDX-License-Identifier: Apache-2.0
"""A standing wave on a square membrane, by mpi4py and pyopencl: each process has a band of rows and
exchanges its borders. The mode has a known frequency on the grid."""

import numpy as np
import pyopencl as cl
from mpi4py import MPI

SIDE, STEPS, SPEED = 1024, 4000, 0.25  # SPEED: squared, in cells a step
SOURCE = """
kernel void wave(global const double *u, global double *next, double speed)
{
    int x = get_global_id(0), y = get_global_id(1) + 1, n = get_global_size(0), at = y * n + x;
    double left = x ? u[at - 1] : 0, right = x + 1 < n ? u[at + 1] : 0;
    next[at] = 2 * u[at] - next[at]
        + speed * (left + right + u[at - n] + u[at + n] - 4 * u[at]);
}
"""
world = MPI.COMM_WORLD
below = world.rank - 1 if world.rank else MPI.PROC_NULL
above = world.rank + 1 if world.rank + 1 < world.size else MPI.PROC_NULL
rows = SIDE // world.size
line = np.sin(3 * np.pi * np.arange(1, SIDE + 1) / (SIDE + 1))
band = np.zeros((rows + 2, SIDE))  # with a row of each neighbour
band[1:-1] = np.outer(line[world.rank * rows : (world.rank + 1) * rows], line)
turn = 2 * np.arcsin(np.sqrt(2 * SPEED) * np.sin(1.5 * np.pi / (SIDE + 1)))

device = cl.get_platforms()[0].get_devices()[0]
context = cl.Context([device])
queue = cl.CommandQueue(context)
wave = cl.Kernel(cl.Program(context, SOURCE).build(), "wave")
copied = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
now = cl.Buffer(context, copied, hostbuf=band)
other = cl.Buffer(context, copied, hostbuf=band * np.cos(turn))  # one step earlier
row = SIDE * band.itemsize
edge, halo = np.zeros(SIDE), np.zeros(SIDE)
for _ in range(STEPS):
    for inner, outer, to, source in ((1, rows + 1, below, above), (rows, 0, above, below)):
        cl.enqueue_copy(queue, edge, now, src_offset=inner * row)
        halo[:] = 0
        world.Sendrecv(edge, to, recvbuf=halo, source=source)
        cl.enqueue_copy(queue, now, halo, dst_offset=outer * row)
    wave(queue, (SIDE, rows), (16, 16), now, other, np.float64(SPEED))
    now, other = other, now
found = np.empty_like(band)
cl.enqueue_copy(queue, found, now)
error = world.allreduce(abs(found - band * np.cos(STEPS * turn))[1:-1].max(), MPI.MAX)
assert error < 1e-9, error
if world.rank == 0:
    print("right")
