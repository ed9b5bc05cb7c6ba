# SPDX-License-Identifier: Apache-2.0
"""libxpuprof_rt through ctypes, called as by a device-side library, without a device. As a program:
boundary_abi.py LIBRARY LAUNCHES EXIT FORKS; see `program`."""

from __future__ import annotations

import ctypes as c
import os
import signal
import sys
from collections.abc import Sequence


class Block(c.Structure):
    _fields_ = [("instructions", c.c_uint32), ("mix", c.c_uint16 * 12)]


class Launch(c.Structure):
    _fields_ = [
        ("kernel", c.c_uint32),
        ("dimensions", c.c_uint32),
        ("global_", c.c_uint64 * 3),
        ("local", c.c_uint64 * 3),
        ("offset", c.c_uint64 * 3),
        ("queue", c.c_uint32),
        ("device", c.c_uint32),
        ("tsc_run", c.c_uint64),
        ("reason", c.c_char_p),
    ]


class Completion(c.Structure):
    _fields_ = [(name, c.c_uint64) for name in ("launch", "tsc_host", "tsc_start", "tsc_end")]


class Grid(c.Structure):
    _fields_ = [
        ("kernel", c.c_uint32),
        ("n_vectors", c.c_uint32),
        ("counts", c.POINTER(c.c_uint64)),
        ("n_runs", c.c_uint64),
        ("run_vector", c.POINTER(c.c_uint32)),
        ("run_length", c.POINTER(c.c_uint64)),
    ]


class Runtime:
    """One process's boundary bus."""

    def __init__(self, library: str) -> None:
        self.lib = c.CDLL(library)
        self.lib.xpu_kernel_run.restype = c.c_uint64
        self.lib.xpu_tsc.restype = c.c_uint64

    def init(self) -> None:
        self.lib.xpu_gpu_init(b"stand-in", b"1", b"lane", 32)

    def program(self, hash: bytes) -> int:
        return int(self.lib.xpu_program_built(hash, 0, b"here"))

    def kernel(self, program: int, name: str, instructions: Sequence[int]) -> int:
        blocks = (Block * len(instructions))()
        for block, n in zip(blocks, instructions, strict=True):
            block.instructions = n
            block.mix[0] = n
        return int(
            self.lib.xpu_kernel_built(program, name.encode(), len(instructions), blocks, None)
        )

    def run(self, kernel: int, size: int, reason: str | None = None) -> int:
        launch = Launch(kernel=kernel, dimensions=1, queue=3, device=4)
        launch.global_[:] = (size, 1, 1)
        launch.reason = reason.encode() if reason else None
        return int(self.lib.xpu_kernel_run(c.byref(launch)))

    def complete(self, launch: int) -> None:
        now = self.lib.xpu_tsc()
        self.lib.xpu_kernel_complete(c.byref(Completion(launch, now, now - 2, now - 1)))

    def counts(
        self,
        launch: int,
        kernel: int,
        vectors: Sequence[Sequence[int]],
        runs: Sequence[tuple[int, int]],
    ) -> None:
        flat = [n for vector in vectors for n in vector]
        grid = Grid(
            kernel,
            len(vectors),
            (c.c_uint64 * len(flat))(*flat),
            len(runs),
            (c.c_uint32 * len(runs))(*(v for v, _ in runs)),
            (c.c_uint64 * len(runs))(*(n for _, n in runs)),
        )
        self.lib.xpu_kernel_counts(c.c_uint64(launch), c.byref(grid))


def launch_all(runtime: Runtime, launches: int, tell: bool = False) -> None:
    """Launch i runs kernel `even` or `odd` with counts derived from i; a negative number:
    forever."""
    program = runtime.program(bytes(range(16)))
    kernels = [runtime.kernel(program, "even", [2, 5]), runtime.kernel(program, "odd", [7])]
    i = 0
    while i != launches:
        kernel = i % 2
        number = runtime.run(kernels[kernel], 64 + i)
        runtime.complete(number)
        if kernel == 0:
            runtime.counts(number, kernels[0], [[1, i], [1, 0]], [(0, 3), (1, 1), (0, 2)])
        else:
            runtime.counts(number, kernels[1], [[9]], [(0, 8)])
        if tell:
            os.write(1, b"%d\n" % number)
        i += 1


def program() -> None:
    """Launches, then ends as given: return, _exit, kill, or forever (until killed).

    FORKS: none, idle (a child without device work), device (a child that launches 2 kernels).
    """
    launches, ending, forks = int(sys.argv[2]), sys.argv[3], sys.argv[4]
    runtime = Runtime(sys.argv[1])
    runtime.init()
    launch_all(runtime, -1 if ending == "forever" else launches, tell=ending == "forever")
    if forks != "none":
        child = os.fork()
        if child == 0:
            if forks == "device":
                runtime.init()
                launch_all(runtime, 2)
            sys.exit(0)
        os.waitpid(child, 0)
        number = runtime.run(0, 1)  # the parent's stream still works
        runtime.counts(number, 0, [[1, 1]], [(0, 1)])
    if ending == "_exit":
        os._exit(0)
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    program()
