/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that graphs launch, by the timer's book-keeping (native/gpu/cuda/graphs.h). */
#ifndef XPUPROF_PTX_GRAPHS_H
#define XPUPROF_PTX_GRAPHS_H

#include <cuda.h>
#include <stdint.h>

#include <vector>

namespace ptx {

struct GraphLaunch {
  CUfunction function;
  unsigned grid[3], block[3];
  uint32_t place;
};

/* What one launch of a graph runs, in an order in which it may run. */
struct GraphLaunches {
  std::vector<GraphLaunch> kernels;
  bool device_decides; /* what runs beside them */
};

/* The caller holds a lock. */
void graph_instantiated(CUgraphExec exec, CUgraph graph);
void graph_destroyed(CUgraphExec exec);
void graph_updated(CUgraphExec exec, CUgraph graph);
void graph_node_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 &params);
void graph_child_set(CUgraphExec exec, CUgraphNode node, CUgraph child);
void graph_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
GraphLaunches graph_launches(CUgraphExec exec);
/* Whether the first is over when the second, a later one, begins. */
bool is_before(CUgraphExec exec, const GraphLaunch &first, const GraphLaunch &second);

}  // namespace ptx

#endif
