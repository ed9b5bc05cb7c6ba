# SPDX-License-Identifier: Apache-2.0
"""pyopencl's own generated kernels: scans, reductions, sorts and element-wise work, compared with
numpy."""

import numpy as np
import pyopencl as cl
import pyopencl.array
from pyopencl.algorithm import RadixSort
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import GenericScanKernel

ROUNDS, SIZE = 20, 1 << 16

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
numbers = np.random.default_rng(1).integers(0, 1000, SIZE).astype(np.int32)
on_device = cl.array.to_device(queue, numbers)
scan = GenericScanKernel(
    context,
    np.int32,
    arguments="__global int *x, __global int *out",
    input_expr="x[i]",
    scan_expr="a+b",
    neutral="0",
    output_statement="out[i] = item;",
)
largest = ReductionKernel(
    context,
    np.int32,
    neutral="0",
    reduce_expr="max(a,b)",
    map_expr="x[i]",
    arguments="__global int *x",
)
sort = RadixSort(context, "int *x", key_expr="x[i]", sort_arg_names=["x"], key_dtype=np.int32)
for _ in range(ROUNDS):
    sums = cl.array.empty_like(on_device)
    scan(on_device, sums, queue=queue)
    assert (sums.get() == np.cumsum(numbers)).all()
    assert int(largest(on_device, queue=queue).get()) == numbers.max()
    (ordered,), _ = sort(on_device, key_bits=10, queue=queue)
    assert (ordered.get() == np.sort(numbers)).all()
    assert ((on_device * 2 + 1).get() == numbers * 2 + 1).all()
print("right")
