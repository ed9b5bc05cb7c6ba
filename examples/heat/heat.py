# SPDX-License-Identifier: Apache-2.0
"""Heat flow on a plate, with pyopencl: a Python program that uses CPU and device.

    python heat.py [STEPS] [SIZE]

The device relaxes the plate step by step; every 20th step it measures the change, and the CPU
(numpy) moves the heat source along its path and keeps a spectrum of the plate. At the end the
result is compared with the same steps done by numpy; the program fails if they differ.
"""

import sys

import numpy as np
import pyopencl as cl

KERNELS = """
kernel void relax(global const float *from, global float *to, int n) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x >= n || y >= n) return;
  int i = y * n + x;
  if (x == 0 || y == 0 || x == n - 1 || y == n - 1) {
    to[i] = from[i];
    return;
  }
  to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - n] + from[i + n]);
}

kernel void change(global const float *a, global const float *b, int n, global float *rows) {
  int y = get_global_id(0);
  if (y >= n) return;
  float largest = 0.0f;
  for (int x = 0; x < n; x++) largest = fmax(largest, fabs(a[y * n + x] - b[y * n + x]));
  rows[y] = largest;
}
"""


def source(size: int, turn: int) -> tuple[slice, slice]:
    """Position of the heat source after `turn` moves."""
    x = size // 4 + (turn * 7) % (size // 2)
    return slice(size // 3, size // 3 + 8), slice(x, x + 8)


def spectrum(plate: np.ndarray) -> float:
    """CPU work: share of the plate's energy in its low frequencies."""
    power = np.abs(np.fft.rfft2(plate)) ** 2
    return float(power[:8, :8].sum() / power.sum())


def on_device(steps: int, size: int) -> tuple[np.ndarray, list[float]]:
    """The plate after `steps`, and the spectra on the way."""
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    program = cl.Program(context, KERNELS).build()
    relax, change = program.relax, program.change
    plate = np.zeros((size, size), np.float32)
    plate[source(size, 0)] = 1.0
    flags = cl.mem_flags
    a = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=plate)
    b = cl.Buffer(context, flags.READ_WRITE, plate.nbytes)
    rows = np.empty(size, np.float32)
    rows_buffer = cl.Buffer(context, flags.WRITE_ONLY, rows.nbytes)
    whole = ((size + 15) // 16 * 16,) * 2
    spectra = []
    for step in range(1, steps + 1):
        relax(queue, whole, (16, 16), a, b, np.int32(size))
        a, b = b, a
        if step % 20 == 0:
            change(queue, (whole[0],), (16,), a, b, np.int32(size), rows_buffer)
            cl.enqueue_copy(queue, rows, rows_buffer)
            cl.enqueue_copy(queue, plate, a)
            spectra.append(spectrum(plate))
            plate[source(size, step // 20)] = 1.0
            cl.enqueue_copy(queue, a, plate)
            print(f"step {step:4d}  change {rows.max():.2e}  low frequencies {spectra[-1]:.4f}")
    cl.enqueue_copy(queue, plate, a)
    return plate, spectra


def on_cpu(steps: int, size: int) -> np.ndarray:
    """The same steps in numpy."""
    plate = np.zeros((size, size), np.float32)
    plate[source(size, 0)] = 1.0
    for step in range(1, steps + 1):
        after = plate.copy()
        after[1:-1, 1:-1] = np.float32(0.25) * (
            plate[1:-1, :-2] + plate[1:-1, 2:] + plate[:-2, 1:-1] + plate[2:, 1:-1]
        )
        plate = after
        if step % 20 == 0:
            plate[source(size, step // 20)] = 1.0
    return plate


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    plate, _ = on_device(steps, size)
    error = float(np.abs(plate - on_cpu(steps, size)).max())
    print(f"largest difference to numpy {error:.1e}: {'good' if error < 1e-5 else 'WRONG'}")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
