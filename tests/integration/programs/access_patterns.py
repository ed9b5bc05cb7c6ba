# SPDX-License-Identifier: Apache-2.0
"""Kernels whose accesses to global memory are all known; test_opencl_memory.py has the model.

access_patterns.py OUT: runs LAUNCHES in order and saves the results.
"""

import sys

import numpy as np
import pyopencl as cl

SOURCE = """
constant int one_line[4] = {1, 2, 3, 4};
typedef struct { int key[6]; } record;  // 24 bytes

kernel void stream(global const float *a, global const float *b, global float *c) {
  size_t i = get_global_id(0);
  c[i] = a[i] + b[i];
}
kernel void stencil(global const float *a, global float *c, int n) {
  int i = get_global_id(0);
  if (i > 0 && i < n - 1) c[i] = a[i - 1] * 0.25f + a[i] * 0.5f + a[i + 1] * 0.25f;
}
kernel void gather(global const int *index, global const float *a, global float *c) {
  size_t i = get_global_id(0);
  c[i] = a[index[i]];
}
kernel void reduce(global const float *a, global float *c, local float *sums) {
  int me = get_local_id(0);
  sums[me] = a[get_global_id(0)];
  for (int reach = get_local_size(0) / 2; reach > 0; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < reach) sums[me] += sums[me + reach];
  }
  if (me == 0) c[get_group_id(0)] = sums[0];
}
kernel void histogram(global const int *index, volatile global int *bins) {
  atomic_inc(&bins[(index[get_global_id(0)] % 7) * 16]);
}
kernel void diverge(global const float *a, global float *c) {
  int i = get_global_id(0);
  float sum = 0.0f;
  for (int j = 0; j < i % 13; j++) sum += a[j * 100 + i];
  c[i] = sum;
}
kernel void vectors(global const float *a, global float *c) {
  size_t i = get_global_id(0);
  vstore3(vload4(i, a).xyz, i, c + 5);
}
kernel void records(global const record *from, global record *to) {
  size_t i = get_global_id(0);
  to[i] = from[(i * 7) % get_global_size(0)];
}
kernel void tiles(constant float *scale, global const float *a, global float *c) {
  size_t x = get_global_id(0), y = get_global_id(1), width = get_global_size(0);
  c[x * get_global_size(1) + y] = a[y * width + x] * scale[y] * one_line[x % 4];
}
kernel void walk(global const float *a, global float *c) {
  int i = get_global_id(0);
  float sum = 0.0f;
  for (int j = 0; j < 300; j++) sum += a[(i * 37 + j * 11) % 2048];
  c[i] = sum;
}
kernel void copies(global const float *a, global float *c, local float *part) {
  event_t done = async_work_group_copy(part, a + get_group_id(0) * 100, 100, 0);
  wait_group_events(1, &done);
  done = async_work_group_strided_copy(c + get_group_id(0) * 200, part, 66, 3, 0);
  wait_group_events(1, &done);
}
"""
# kernel, buffers, global size, local size
LAUNCHES = [
    ("stream", "ABC", (2048,), (64,)),
    ("stencil", "AC", (2048,), (64,)),
    ("gather", "IAC", (2048,), (128,)),
    ("reduce", "AC", (1024,), (64,)),
    ("histogram", "IH", (2048,), (32,)),
    ("diverge", "AC", (640,), (80,)),
    ("vectors", "AC", (512,), (48 // 3,)),
    ("records", "RS", (96,), (48,)),
    ("tiles", "KAC", (40, 20), (10, 5)),
    ("stream", "DBC", (1024,), (64,)),  # D: a part of A
    ("stream", "ABC", (2048,), (256,)),
    ("walk", "AC", (64,), (32,)),  # two groups with many accesses
    ("copies", "AC", (480,), (48,)),  # copied by ten groups, whose work-items get unequal shares
]
SIZES = {"A": 2048 * 4, "B": 2048 * 4, "C": 2048 * 4, "I": 2048 * 4, "H": 7 * 64, "R": 96 * 24}
SIZES |= {"S": 96 * 24, "K": 20 * 4}
PART_OF_A = 1024


def indices() -> np.ndarray:
    """The buffer I."""
    return np.random.default_rng(7).integers(0, 2048, 2048).astype(np.int32)


def main() -> None:
    """Runs every launch and saves the buffers."""
    context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
    rng = np.random.default_rng(1)
    host = {name: rng.random(size // 4, np.float32) for name, size in SIZES.items()}
    host["I"] = indices()
    host["H"][:] = 0
    flags = cl.mem_flags
    buffers = {
        name: cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=values)
        for name, values in host.items()
    }
    buffers["D"] = buffers["A"].get_sub_region(PART_OF_A, 4096)
    for name, used, size, local in LAUNCHES:
        given = [buffers[buffer] for buffer in used]
        if name == "stencil":
            given.append(np.int32(size[0]))
        if name in ("reduce", "copies"):
            given.append(cl.LocalMemory(100 * 4))
        kernels[name](queue, size, local, *given)
    for name, values in host.items():
        cl.enqueue_copy(queue, values, buffers[name])
    np.savez(sys.argv[1], **host)


if __name__ == "__main__":
    main()
