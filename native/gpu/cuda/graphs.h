/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs: which kernels one launch of an executable graph runs, in which order.
 *
 * The kernel nodes are read from the graph when it is instantiated (child graphs in place), and
 * kept up to date by the update calls. Activity records name the executable graph's own copies of
 * the nodes; CUPTI reports the original of each copy. The device decides the bodies of conditional
 * nodes, so they are unknown here, except that there are any. */
#ifndef XPUPROF_CUDA_GRAPHS_H
#define XPUPROF_CUDA_GRAPHS_H

#include <stdint.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "dispatch.h"

struct GraphKernel {
  uint64_t node; /* CUPTI's id of the node in the graph that was instantiated */
  CUfunction function;
  uint32_t grid[3], block[3], shared;
  bool enabled;
  uint32_t place; /* among all nodes, in topological order */
};

struct GraphContent {
  std::vector<GraphKernel> kernels;          /* in topological order */
  std::vector<std::vector<uint32_t>> before; /* of each place: places that it comes after */
  bool device_decides = false;               /* what runs */
};

/* Called under the recorder's lock, except `cloned` and `original_of`: they come from inside the
 * driver and from CUPTI's threads, and take a lock under which nothing is ever called. */
class Graphs {
 public:
  void instantiated(CUgraphExec exec, CUgraph graph);
  void destroyed(CUgraphExec exec) { execs_.erase(exec); }
  void cloned(CUgraphNode copy, CUgraphNode original);
  /* cuGraphExecKernelNodeSetParams, cuGraphExecUpdate, cuGraphExecChildGraphNodeSetParams,
   * cuGraphNodeSetEnabled. */
  void set_params(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 &params);
  void updated(CUgraphExec exec, CUgraph graph);
  void set_child(CUgraphExec exec, CUgraphNode node, CUgraph child);
  void set_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
  /* Empty for an unknown exec. */
  const GraphContent &content(CUgraphExec exec) const;
  /* The node that `node` is a copy of, or `node` itself. */
  uint64_t original_of(uint64_t node) const;

 private:
  GraphKernel *find(CUgraphExec exec, CUgraphNode node);
  std::unordered_map<CUgraphExec, GraphContent> execs_;
  mutable std::mutex copies_lock_;
  std::unordered_map<uint64_t, uint64_t> original_;
};

/* Whether the node at place `first` is over when the one at the later place `second` begins. */
bool is_before(const GraphContent &content, uint32_t first, uint32_t second);

#endif
