/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver call launches, or puts into a graph. */
#ifndef XPUPROF_NVBIT_CALLS_H
#define XPUPROF_NVBIT_CALLS_H

#include <stdint.h>

#include "kit.h"

struct Shape {
  uint32_t grid[3], block[3]; /* block 0: the call does not give it */
};

struct Call {
  CUfunction function;
  CUstream stream;
  Shape shape;
};

uint64_t warps_of(const Shape &shape);

/* Whether the call launches one kernel. */
bool is_launch(nvbit_api_cuda_t cbid, const void *params, Call *call);

bool is_graph_launch(nvbit_api_cuda_t cbid);
CUstream graph_stream(nvbit_api_cuda_t cbid, const void *params);

/* Whether the call adds a kernel node to a graph or gives one new parameters. */
bool sets_node(nvbit_api_cuda_t cbid, const void *params, Call *node);

/* cuLaunchKernel and graph nodes take a CUkernel in place of a function, too. */
CUfunction resolved(CUfunction handle);

#endif
