# SPDX-License-Identifier: Apache-2.0
"""Kernels that record, per warp, what our counters should hold. Prints one line per launch: the
kernel's name and the records of its warps, in the order of groups, then of warps in a group.

A warp is a sub-group where the device has them, otherwise 32 work-items in linear order. Each
kernel adds to its warp's record by atomics, one for each atomic that the trace shows for the warp's
blocks.
"""

import json

import numpy as np
import pyopencl as cl

MACROS = """
#ifdef SUB_GROUPS
#define WARPS_A_GROUP (get_enqueued_num_sub_groups())
#define WARP (get_sub_group_id())
#else
#define WARPS_A_GROUP \\
  ((get_local_size(0) * get_local_size(1) * get_local_size(2) + 31) / 32)
#define WARP ((get_local_id(0) + get_local_size(0) * \\
  (get_local_id(1) + get_local_size(1) * get_local_id(2))) / 32)
#endif
#define GROUP (get_group_id(0) + get_num_groups(0) * \\
  (get_group_id(1) + get_num_groups(1) * get_group_id(2)))
#define NOTE atomic_inc(&record[GROUP * WARPS_A_GROUP + WARP])
#define X ((int)get_global_id(0))
#define Y ((int)get_global_id(1))
#define Z ((int)get_global_id(2))
"""
SOURCE = (
    MACROS
    + """
// Bounds and a border, as most programs have them.
kernel void bounds(global int *record, int n, int m) {
  NOTE;
  if (X < n && Y < m) {
    NOTE;
    if (Y == 0) NOTE; else { NOTE; NOTE; }
  }
}
// Loops whose trips are arguments, in a condition and after another loop.
kernel void loops(global int *record, int n, int m) {
  if (X > m && X < n) {
    for (int i = 0; i < m; i++) {
      NOTE;
      for (int j = 0; j < 3; j++) NOTE;
    }
  }
  for (int i = m; i < n; i += 5) NOTE;
}
// Every work-item its own number of trips.
kernel void triangle(global int *record, int n, int m) {
  for (int i = X + Y; i < n; i++) NOTE;
  if (X < Y) NOTE;
}
// Places in the group, uniform conditions, all integer widths.
kernel void places(global int *record, int n, int m) {
  if (get_local_id(0) == 0) NOTE;
  if (get_local_id(1) == get_local_size(1) - 1) NOTE;
  if (get_group_id(0) & 1) NOTE;
  if (n > 40 && m != 7) NOTE; else { NOTE; NOTE; NOTE; }
  if ((char)X < 0) NOTE;
  if ((ulong)get_global_id(0) * 3 > (ulong)n) NOTE;
  if ((short)(X - 9) < (short)-3) NOTE;
  if (get_global_offset(0) > 2 || X / 3 == 2 || X % 7 == 1) NOTE;
}
// Many ways, met again.
kernel void ways(global int *record, int n, int m) {
  switch (X % 5 + (Z > 0)) {
    case 0: NOTE;
    case 1: NOTE; break;
    case 4: NOTE; NOTE; NOTE; break;
    default: if (max(X, m) > min(n, Y + 9)) NOTE;
  }
  if (X > n) return;
  NOTE;
  if (Y > m) return;
  NOTE;
}
// The data decide: the kernel counts for itself.
kernel void data(global int *record, int n, int m) {
  if (record[n] == 0) NOTE;
}
// All of the group together, and by group.
kernel void uniform_ways(global int *record, int n, int m) {
  if (get_group_id(0) % 3 == 1) for (int i = 0; i < m; i++) NOTE;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (m > 3) NOTE;
}
// Strides that the launch gives, up and down, with either end, and tested behind the body.
kernel void strides(global int *record, int n, int m) {
  for (uint i = X; i < (uint)n; i += get_global_size(0)) NOTE;
  for (int i = n; i >= m; i -= Y + 3) NOTE;
  for (int i = m; i <= n; i += (int)get_local_size(0)) NOTE;
  for (long i = X; 2 * n > i; i += m) NOTE;
  int i = 0;
  do {
    NOTE;
    i += m;
    barrier(CLK_LOCAL_MEM_FENCE);
  } while (i < n);
}
// A counter that may wrap round on its way.
kernel void wraps(global int *record, int n, int m) {
  if (X != 3) for (uint i = 0; i < (uint)n; i += (uint)m) NOTE;
}
// Halved and doubled.
kernel void halves(global int *record, int n, int m) {
  const uint t = get_local_id(0);
  for (uint s = get_local_size(0) / 2; s > 0; s >>= 1) {
    if (t < s) NOTE;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  int bar = n / 2;
  while (bar > 0) {
    if ((int)(t & 7) < bar) {
      NOTE;
    } else if (bar == m) {
      NOTE;
      NOTE;
    }
    bar = bar / 2;
  }
  for (int k = 1; k < n; k *= 2) {
    if (t % k == 1) NOTE;
    if (k == m) break;
    NOTE;
  }
}
// Loops in loops, and conditions on what they count.
kernel void windows(global int *record, int n, int m) {
  const int t = get_local_id(0), size = get_local_size(0);
  int i = X;
  for (uint window = 0; window < (uint)n; window += size) {
    if (i < n) NOTE;
    for (int k = 1; k < size; k *= 2) {
      if (t >= k) NOTE;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == size - 1) NOTE; else { NOTE; NOTE; }
    i += size;
    for (int j = t; j < m; j += size) NOTE;
    if (t < m && window > 9) for (int j = n; j > m; j -= 3) if (j < 2 * m && Y != 1) NOTE;
  }
}
// Conditions on what may wrap round before the loop ends, or stand still.
kernel void comes_round(global int *record, int n, int m) {
  for (uint k = 0; k < (uint)n; k += 2)
    if (k * 0x8000000u < (uint)m) NOTE;
  for (uint k = 0; k < (uint)n; k += 3)
    if ((int)(k * (uint)m) >= 20) NOTE;
}
"""
)
LAUNCHES = [
    ("bounds", (64, 24), (32, 8), None, (50, 20)),
    ("bounds", (64, 24), (32, 8), None, (50, 20)),
    ("bounds", (96, 10), (24, 5), None, (90, 1)),
    ("bounds", (64, 24), (16, 3), (3, 1), (70, 9)),
    ("bounds", (640,), (64,), None, (601, 5)),
    ("loops", (256,), (64,), None, (130, 17)),
    ("loops", (256,), (64,), None, (130, 4)),
    ("loops", (200,), (50,), (100,), (250, 0)),
    ("triangle", (40, 12), (10, 4), None, (23, 0)),
    ("triangle", (64,), (64,), None, (63, 0)),
    ("places", (60, 8), (12, 4), (5, 0), (41, 6)),
    ("places", (512,), (128,), None, (700, 7)),
    ("places", (300, 2), (150, 2), None, (-40, 8)),
    ("ways", (20, 12, 4), (10, 3, 2), None, (13, 7)),
    ("ways", (128, 4), (64, 1), None, (99, 2)),
    ("data", (64,), (32,), None, (63, 0)),
    ("uniform_ways", (256,), (32,), None, (0, 5)),
    ("uniform_ways", (12, 30), (6, 10), None, (0, 3)),
    ("strides", (256,), (64,), None, (1000, 7)),
    ("strides", (24, 6), (12, 3), (5, 2), (77, 1)),
    ("strides", (64,), (64,), None, (0, 1)),
    ("wraps", (64,), (32,), None, (100, 9)),
    ("wraps", (64,), (32,), None, (0, 0)),
    ("wraps", (64,), (32,), None, (-0x30000000, 0x60000000)),
    ("halves", (512,), (64,), None, (100, 25)),
    ("halves", (300, 2), (100, 1), None, (7, 4)),
    ("halves", (8192,), (64,), None, (1000, 64)),
    ("halves", (60,), (1,), None, (-5, 1)),
    ("windows", (128,), (64,), None, (300, 40)),
    ("windows", (64, 4), (32, 2), None, (75, 3)),
    ("windows", (60,), (20,), (7,), (0, 9)),
    ("comes_round", (64,), (32,), None, (9, 5000)),
    ("comes_round", (64,), (32,), None, (100, 5000)),
    ("comes_round", (64,), (32,), None, (100, 0)),
    ("comes_round", (64,), (32,), None, (100, -3)),
]


def run(source, launches) -> None:
    context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    queue = cl.CommandQueue(context)
    device = context.devices[0]
    sub_groups = "cl_intel_required_subgroup_size" in device.extensions
    options = ["-cl-std=CL3.0", "-DSUB_GROUPS"] if sub_groups else []
    program = cl.Program(context, source).build(options)
    for name, size, local, offset, numbers in launches:
        record = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * 4096)
        cl.enqueue_fill_buffer(queue, record, np.int32(0), 0, 4 * 4096)
        kernel = cl.Kernel(program, name)
        kernel.set_args(record, *map(np.int32, numbers))
        cl.enqueue_nd_range_kernel(queue, kernel, size, local, offset)
        counts = np.empty(4096, np.int32)
        cl.enqueue_copy(queue, counts, record)
        print(json.dumps([name, np.trim_zeros(counts, "b").tolist()]))


if __name__ == "__main__":
    run(SOURCE, LAUNCHES)
