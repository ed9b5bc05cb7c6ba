# SPDX-License-Identifier: Apache-2.0
"""Launches with kinds of memory that access_patterns.py lacks; each is printed by name."""

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void fill(global int *x) { x[get_global_id(0)] = 1; }
kernel void copy(global const int *x, global int *y, local int *l) {
  event_t done = async_work_group_copy(l, x + get_group_id(0) * 64, 64, 0);
  wait_group_events(1, &done);
  y[get_global_id(0)] = l[get_local_id(0)];
}
kernel void nothing(int n) {}
"""
GENERIC = """
int through(int *p) { return *p; }
kernel void generic_(global int *x, local int *l) {
  size_t i = get_local_id(0);
  l[i] = 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  x[get_global_id(0)] = through(i % 2 ? l + i : l) + through(x + get_global_id(0));
}
"""


def main() -> None:
    """One launch a line of the output; `SVM` and `generic` only where the device has them."""
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    fill, copy = cl.Kernel(program, "fill"), cl.Kernel(program, "copy")

    def launch(name: str, kernel: cl.Kernel, local: tuple[int, ...] | None, *given: object) -> None:
        print(name)
        kernel.set_args(*given)
        cl.enqueue_nd_range_kernel(queue, kernel, (2048,), local).wait()

    x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8192)
    launch("no local size", fill, None, x)
    launch("again", fill, None, x)
    x.release()
    x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8192)
    launch("new buffer", fill, (64,), x)
    y = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8192)
    launch("copy", copy, (64,), x, y, cl.LocalMemory(256))
    launch("nothing", cl.Kernel(program, "nothing"), (64,), np.int32(1))
    try:
        svm = cl.SVM(cl.csvm_empty(context, (4096,), np.int32))
        launch("SVM", fill, (64,), svm)
        launch("SVM again", fill, (64,), svm)
    except (cl.Error, AttributeError):
        pass
    try:
        generic = cl.Kernel(cl.Program(context, GENERIC).build("-cl-std=CL2.0"), "generic_")
    except cl.Error:
        return
    launch("generic", generic, (64,), y, cl.LocalMemory(256))


if __name__ == "__main__":
    main()
