# SPDX-License-Identifier: Apache-2.0
"""What block counters cost: kernel time instrumented / native, in interleaved pairs.

    python tools/bench/gpu_counters.py [--platform pocl|intel] [--size 512] [--pairs 15]
        [--kernels gemm,collatz] [FILE.cl]

Both variants run on equal data; a pair is native then instrumented, so that the machine's drift
falls on both. Prints the median ratio of the pairs, the range of their middle half, and the time
that the instrumenter itself takes. A kernel marked `told` is counted this way only
here: in a profile its counts follow from the launch, and its own code runs.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))
from tests.support.clinst import (  # noqa: E402
    CONTRACTS,
    HEADER,
    INTEL,
    POCL,
    Device,
    Kernel,
    instrument,
    program,
    warps_of_group,
)

LOCAL = (32, 8)


def buffers(cl, context, n: int):
    """Three n x n inputs, equal every time."""
    random = np.random.default_rng(1)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return [cl.Buffer(context, flags, hostbuf=random.random(n * n, np.float32)) for _ in range(3)]


def timed(cl, queue, kernel, size, local) -> float:
    """Device time of one launch in seconds."""
    event = cl.enqueue_nd_range_kernel(queue, kernel, size, local)
    event.wait()
    return (event.profile.end - event.profile.start) * 1e-9


def is_told(kernel: Kernel) -> bool:
    """Whether the kernel's counts are analytic."""
    return kernel.analytic or kernel.n_probes == 0


def summary(which: str, ratios: list[float]) -> str:
    """Prints one line for each of some kernels."""
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{which}: {len(ratios)} kernels, geomean {geomean:.2f}, worst {max(ratios):.2f}"


def main() -> None:
    """Measure every kernel of the file and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=HERE / "kernels" / "gpu_counters.cl")
    parser.add_argument("--platform", choices=["pocl", "intel"], default="pocl")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--kernels", help="comma-separated; default: all of the file")
    options = parser.parse_args()

    intel = options.platform == "intel"
    runner = Device(INTEL if intel else POCL)
    cl, context = runner.cl, runner.context
    native = runner.build_source(options.file.read_text())
    with tempfile.TemporaryDirectory() as folder:
        sizes = runner.sub_groups(native)
        told = CONTRACTS if intel else ()
        made = instrument(options.file, Path(folder), *told, to=runner.form, sub_groups=sizes)
        start = time.perf_counter()
        subprocess.run([program(), "--compile", options.file, "--no-cache"], check=True)
        compile_s = time.perf_counter() - start
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    counted = runner.build_module(made.module)

    n, ratios = options.size, []
    names = options.kernels.split(",") if options.kernels else list(made.kernels)
    print(f"{'kernel':16}{'probes':>7}{'words':>7}{'native ms':>11}{'ratio':>7}   middle half")
    for name in names:
        about = made.kernels[name]
        size = (n, n)
        local = (16, 16) if name == "gemm_tiled" else LOCAL
        items = local[0] * local[1]
        warps = n * n // items * len(warps_of_group(local, about.sub_group))
        words = HEADER + warps * about.n_probes
        counters = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8 * words)
        plain, ours = cl.Kernel(native, name), cl.Kernel(counted, name)
        data = buffers(cl, context, n), buffers(cl, context, n)  # a kernel does not retain them
        plain.set_args(*data[0], np.int32(n))
        ours.set_args(*data[1], np.int32(n), counters, np.uint64(0), about.scratch(cl, items))
        pairs = []
        for _ in range(options.pairs + 1):  # the first one compiles
            pairs.append([timed(cl, queue, kernel, size, local) for kernel in (plain, ours)])
        pairs = pairs[1:]
        ratio = [b / a for a, b in pairs]
        low, _, high = quantiles(ratio, n=4)
        ratios.append(median(ratio))
        print(
            f"{name:16}{about.n_probes:7}{about.scratch_probes:7}"
            f"{1e3 * median(a for a, _ in pairs):11.3f}{ratios[-1]:7.2f}   {low:.2f}-{high:.2f}"
            f"{'   told' if is_told(about) else ''}",
            flush=True,
        )
    own = [
        ratio for name, ratio in zip(names, ratios, strict=True) if not is_told(made.kernels[name])
    ]
    print(summary("all", ratios))
    if own:
        print(summary("not told", own))
    print(f"instrumenter {compile_s:.3f} s")


if __name__ == "__main__":
    main()
