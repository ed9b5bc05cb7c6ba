// SPDX-License-Identifier: Apache-2.0
/* Executable graphs that are made, changed and destroyed. */
#include "graphs.h"
#include "hook.h"
#include "node_params.h"

using ptx::Inside;
using ptx::is_recording;
using ptx::recorder;
using ptx::recorder_lock;

namespace {

/* Calls that make or change an executable graph. */
template <typename Real, typename Note>
CUresult change_graph(Real real, Note note) {
  if (!is_recording()) return real();
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  Inside inside;
  CUresult result = real();
  if (result == CUDA_SUCCESS) note();
  return result;
}

}  // namespace

static void instantiated(CUgraphExec exec, CUgraph graph, uint64_t flags) {
  ptx::graph_instantiated(exec, graph);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) recorder->device_launches_graphs = true;
}

/* They begin with exec and graph. */
#define INSTANTIATE_HOOK(name, flags, declaration, ...)                 \
  HOOK CUresult name declaration {                                      \
    REAL(name);                                                         \
    return change_graph([&] { return real(exec, graph, __VA_ARGS__); }, \
                        [&] { instantiated(*exec, graph, flags); });    \
  }

INSTANTIATE_HOOK(cuGraphInstantiate, 0,
                 (CUgraphExec * exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes),
                 wrong, log, bytes)
INSTANTIATE_HOOK(cuGraphInstantiate_v2, 0,
                 (CUgraphExec * exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes),
                 wrong, log, bytes)
INSTANTIATE_HOOK(cuGraphInstantiateWithFlags, flags,
                 (CUgraphExec * exec, CUgraph graph, unsigned long long flags), flags)
INSTANTIATE_HOOK(cuGraphInstantiateWithParams, params->flags,
                 (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), params)
INSTANTIATE_HOOK(cuGraphInstantiateWithParams_ptsz, params->flags,
                 (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), params)

HOOK CUresult cuGraphExecDestroy(CUgraphExec exec) {
  REAL(cuGraphExecDestroy);
  return change_graph([&] { return real(exec); }, [&] { ptx::graph_destroyed(exec); });
}

HOOK CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *wrong,
                                CUgraphExecUpdateResult *how) {
  REAL(cuGraphExecUpdate);
  return change_graph([&] { return real(exec, graph, wrong, how); },
                      [&] { ptx::graph_updated(exec, graph); });
}

HOOK CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo *info) {
  REAL(cuGraphExecUpdate_v2);
  return change_graph([&] { return real(exec, graph, info); },
                      [&] { ptx::graph_updated(exec, graph); });
}

HOOK CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  REAL(cuGraphExecKernelNodeSetParams);
  return change_graph([&] { return real(exec, node, params); },
                      [&] { ptx::graph_node_set(exec, node, kernel_node_params(*params)); });
}

HOOK CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  REAL(cuGraphExecKernelNodeSetParams_v2);
  return change_graph([&] { return real(exec, node, params); },
                      [&] { ptx::graph_node_set(exec, node, *params); });
}

HOOK CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                       CUgraphNodeParams *params) {
  REAL(cuGraphExecNodeSetParams);
  return change_graph([&] { return real(exec, node, params); },
                      [&] {
                        if (params->type == CU_GRAPH_NODE_TYPE_KERNEL)
                          ptx::graph_node_set(exec, node, kernel_node_params(params->kernel));
                        else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
                          ptx::graph_child_set(exec, node, params->graph.graph);
                      });
}

HOOK CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 CUgraph child) {
  REAL(cuGraphExecChildGraphNodeSetParams);
  return change_graph([&] { return real(exec, node, child); },
                      [&] { ptx::graph_child_set(exec, node, child); });
}

HOOK CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  REAL(cuGraphNodeSetEnabled);
  return change_graph([&] { return real(exec, node, enabled); },
                      [&] { ptx::graph_node_enabled(exec, node, enabled != 0); });
}
