#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Selections judged by MGPUSim's time of every launch: of the simulator's own timeline, and of
block vectors of the same launches on a CPU device.

    SAMPLE -timing -trace-vis -disable-rtm -verify -gpu mi300a -arch cdna3 -length 1024
    tools/bench/mgpusim_loop.py FOLDER MGPUSIM bitonicsort 1024

FOLDER holds the simulator's database, MGPUSIM is its checkout. `twin` in place of FOLDER executes
the sample's launches on this machine; the numbers are the sample's options. Output is Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.run import done_by_xpuprof as xpuprof
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.workflow.estimate import estimate_results

METHODS = {
    "gpu-point": ("TWIN", []),
    "stem-root": ("RUN", []),
    "xpu-stem": ("RUN", []),
    "random": ("RUN", ["--set", "n=8"]),
}
"""Where each method finds what it needs. The timeline has no counters for sieve and pka."""


class Device:
    """A CPU device, and the kernels of one of the samples' files."""

    def __init__(self, file: Path) -> None:
        import numpy
        import pyopencl

        self.cl, self.random = pyopencl, numpy.random.default_rng(1)
        self.context = pyopencl.Context(pyopencl.get_platforms()[0].get_devices())
        self.queue = pyopencl.CommandQueue(self.context)
        text = file.read_bytes().decode("latin-1").encode("ascii", "replace").decode()
        program = pyopencl.Program(self.context, text).build()
        self.kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}

    def buffer(self, values: Any) -> Any:
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=values)

    def launch(self, kernel: str, size: int, group: int, *arguments: Any) -> None:
        self.kernels[kernel](self.queue, (size,), (group,), *arguments)
        self.queue.finish()


def bitonicsort(device: Device, length: int) -> None:
    import numpy as np

    data = device.buffer(device.random.integers(0, 1 << 32, length, np.uint32))
    for stage in range(length.bit_length() - 1):
        for step in range(stage + 1):
            words = map(np.uint32, (stage, step, 1))
            device.launch("BitonicSort", length // 2, 64, data, *words)


def kmeans(device: Device, points: int, features: int, clusters: int, iterations: int) -> None:
    import numpy as np

    values = device.random.random((points, features), np.float32)
    place, member = values[:clusters].copy(), np.zeros(points, np.int32)
    given, swapped, membership = (device.buffer(a) for a in (values, values, member))
    sizes = [np.int32(n) for n in (points, clusters, features)]
    device.launch("kmeans_kernel_swap", points, 64, given, swapped, sizes[0], sizes[2])
    for _ in range(iterations):
        centres = device.buffer(place)
        zeros = (np.int32(0), np.int32(0))
        device.launch(
            "kmeans_kernel_compute", points, 64, swapped, centres, membership, *sizes, *zeros
        )
        device.cl.enqueue_copy(device.queue, member, membership)
        for cluster in set(member.tolist()):
            place[cluster] = values[member == cluster].mean(0)


def fastwalshtransform(device: Device, length: int) -> None:
    import numpy as np

    data = device.buffer(device.random.random(length, np.float32))
    for bit in range(length.bit_length() - 1):
        device.launch("fastWalshTransform", length // 2, 256, data, np.int32(1 << bit))


def pagerank(device: Device, nodes: int, percent: int, iterations: int) -> None:
    import numpy as np

    edges = device.random.random((nodes, nodes)) < percent / 100
    rows = device.buffer(np.concatenate([[0], edges.sum(1).cumsum()]).astype(np.uint32))
    columns = device.buffer(np.nonzero(edges)[1].astype(np.uint32))
    values = device.buffer((edges / edges.sum(0).clip(1))[edges].astype(np.float32))
    ranks = [device.buffer(np.full(nodes, 1 / nodes, np.float32)) for _ in range(2)]
    shared = device.cl.LocalMemory(1024)
    for i in range(iterations):
        pair = (ranks[i % 2], ranks[1 - i % 2])
        device.launch("PageRankUpdateGpu", 64 * nodes, 64, np.uint32(nodes), rows, columns, values,
                      shared, *pair)  # fmt: skip


SAMPLES: dict[str, tuple[Callable[..., None], str]] = {
    "bitonicsort": (bitonicsort, "amdappsdk/bitonicsort/kernels.cl"),
    "kmeans": (kmeans, "heteromark/kmeans/kernels.cl"),
    "fastwalshtransform": (
        fastwalshtransform,
        "amdappsdk/fastwalshtransform/native/FastWalshTransform_Kernels.cl",
    ),
    "pagerank": (pagerank, "heteromark/pagerank/native/kernels.cl"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("sample", choices=SAMPLES)
    parser.add_argument("numbers", nargs="*", type=int)
    arguments = parser.parse_args()
    folder, checkout, sample = arguments.folder, arguments.checkout, arguments.sample
    if folder == Path("twin"):
        host, kernels = SAMPLES[sample]
        host(Device(checkout / "amd/benchmarks" / kernels), *arguments.numbers)
        return
    (database,) = folder.glob("*.sqlite3")
    run, twin = folder / "RUN", folder / "TWIN"
    program = [sys.executable, str(Path(__file__).resolve()), "twin", checkout, sample]
    program += map(str, arguments.numbers)
    if not run.exists():
        xpuprof("import", database, "-o", run)
    if not twin.exists():
        xpuprof("profile", "--cpu", "none", "-o", twin, "--", *program)
    times = launch_times(run)
    for method, (source, options) in METHODS.items():
        chosen = folder / f"by-{method}"
        if not chosen.exists():
            xpuprof("select", folder / source, "--method", method, "-o", chosen, *options)
        row(sample, method, times, Selection.read(chosen / "selection.json"), chosen)


def launch_times(run: Path) -> list[float]:
    """Each launch's time, in seconds; after them 0, for program exit."""
    slices = ImportedSlices(run)
    return [*map(float, slices.column(slices.time_name or "")[:-1]), 0.0]


def row(sample: str, method: str, times: list[float], selection: Selection, folder: Path) -> None:
    """Estimates the whole from the chosen launches' times and compares."""
    if selection.slices != len(times):
        sys.exit(
            f"{folder} is of {selection.slices - 1} launches, the database has {len(times) - 1}"
        )
    places = [r.slice for r in selection.representatives]
    results = folder / "times.csv"
    lines = [f"{place},{times[place]!r}" for place in places]
    results.write_text("\n".join(["slice,time", *lines]) + "\n")
    (found,) = estimate_results(selection, [str(results)], only=["time"], same_machine=True)
    true, estimate = sum(times), found.estimate
    held = ""
    if estimate.low is not None and estimate.high is not None:
        held = ", held" if estimate.low <= true <= estimate.high else ", missed"
    error = estimate.value / true - 1
    chosen = {place for place in places if place < len(times) - 1}
    part = sum(times[place] for place in chosen) / true
    print(
        f"| {sample} | {method} | {len(chosen)} of {len(times) - 1} | {part:.0%} "
        f"| {1e6 * true:,.1f} | {1e6 * estimate.value:,.1f} ({error:+.1%}){held} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
