# SPDX-License-Identifier: Apache-2.0
"""Python workers with device work: `workers.py METHOD WORKERS STEPS`, METHOD is a start method of
multiprocessing (fork, spawn, forkserver). The parent only waits. Worker n launches STEPS + 2 * n
kernels, and the parent prints each worker's counts and the exit codes, in order."""

import multiprocessing
import sys

SOURCE = (
    "kernel void count(int n, global int *sink) { for (int k = 0; k < n; k++) atomic_inc(sink); }"
)


def work(who: int, steps: int, answers: "multiprocessing.Queue[tuple[int, int]]") -> None:
    """Worker `who`: launch i counts who + 1 + i % 2 in each of 64 * (who + 1) work-items."""
    import numpy as np
    import pyopencl as cl

    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "count")
    sum_ = np.zeros(1, np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=sum_)
    for i in range(steps + 2 * who):
        kernel(queue, (64 * (who + 1),), (64,), np.int32(who + 1 + i % 2), buffer)
    cl.enqueue_copy(queue, sum_, buffer)
    answers.put((who, int(sum_[0])))


if __name__ == "__main__":
    method, count, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=work, args=(n, length, queue)) for n in range(count)]
    for worker in workers:
        worker.start()
    for who, counted in sorted(queue.get() for _ in workers):
        print(f"worker {who} counted {counted}")
    for worker in workers:
        worker.join()
    print("ended with", [worker.exitcode for worker in workers])
