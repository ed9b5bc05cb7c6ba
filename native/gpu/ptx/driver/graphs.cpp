// SPDX-License-Identifier: Apache-2.0
#include "graphs.h"

#include <algorithm>

#include "../../cuda/graphs.h"

namespace ptx {
namespace {

/* Without CUPTI, a node's handle is its number. */
CUptiResult handle_of(CUgraphNode node, uint64_t *id) {
  *id = reinterpret_cast<uint64_t>(node);
  return CUPTI_SUCCESS;
}

/* NULL when the driver lacks a function for it. */
Graphs *graphs() {
  static Graphs *const made = [] {
    const char *why = "";
    cupti.cuptiGetGraphNodeId = handle_of;
    return ::load_driver(&why) ? new Graphs : nullptr;
  }();
  return made;
}

}  // namespace

void graph_instantiated(CUgraphExec exec, CUgraph graph) {
  if (graphs()) graphs()->instantiated(exec, graph);
}

void graph_destroyed(CUgraphExec exec) {
  if (graphs()) graphs()->destroyed(exec);
}

void graph_updated(CUgraphExec exec, CUgraph graph) {
  if (graphs()) graphs()->updated(exec, graph);
}

void graph_node_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 &params) {
  if (graphs()) graphs()->set_params(exec, node, params);
}

void graph_child_set(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  if (graphs()) graphs()->set_child(exec, node, child);
}

void graph_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) {
  if (graphs()) graphs()->set_enabled(exec, node, enabled);
}

std::vector<GraphLaunch> graph_launches(CUgraphExec exec) {
  std::vector<GraphLaunch> launches;
  if (!graphs()) return launches;
  for (const GraphKernel &kernel : graphs()->kernels(exec)) {
    if (!kernel.enabled) continue;
    GraphLaunch launch = {kernel.function, {}, {}};
    std::copy_n(kernel.grid, 3, launch.grid);
    std::copy_n(kernel.block, 3, launch.block);
    launches.push_back(launch);
  }
  return launches;
}

}  // namespace ptx
