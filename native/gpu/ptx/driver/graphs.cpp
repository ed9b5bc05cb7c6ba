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

GraphLaunches graph_launches(CUgraphExec exec) {
  GraphLaunches launches = {{}, !graphs()};
  if (!graphs()) return launches;
  const GraphContent &content = graphs()->content(exec);
  launches.device_decides = content.device_decides;
  for (const GraphKernel &kernel : content.kernels) {
    if (!kernel.enabled) continue;
    GraphLaunch launch = {kernel.function, {}, {}, kernel.place};
    std::copy_n(kernel.grid, 3, launch.grid);
    std::copy_n(kernel.block, 3, launch.block);
    launches.kernels.push_back(launch);
  }
  return launches;
}

bool is_before(CUgraphExec exec, const GraphLaunch &first, const GraphLaunch &second) {
  return graphs() && ::is_before(graphs()->content(exec), first.place, second.place);
}

}  // namespace ptx
