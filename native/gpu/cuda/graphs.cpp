// SPDX-License-Identifier: Apache-2.0
#include "graphs.h"

#include <algorithm>

static uint64_t node_id(CUgraphNode node) {
  uint64_t id = 0;
  cupti.cuptiGetGraphNodeId(node, &id);
  return id;
}

static void take_params(GraphKernel *kernel, const CUDA_KERNEL_NODE_PARAMS_v2 &params) {
  kernel->function = params.func ? params.func : reinterpret_cast<CUfunction>(params.kern);
  uint32_t grid[] = {params.gridDimX, params.gridDimY, params.gridDimZ};
  uint32_t block[] = {params.blockDimX, params.blockDimY, params.blockDimZ};
  std::copy_n(grid, 3, kernel->grid);
  std::copy_n(block, 3, kernel->block);
  kernel->shared = params.sharedMemBytes;
}

/* Nodes before those that depend on them; otherwise in the order in which the driver lists them
 * (for a captured graph the order of the captured calls). */
static std::vector<CUgraphNode> in_order(CUgraph graph) {
  size_t n = 0, edges = 0;
  if (driver.cuGraphGetNodes(graph, nullptr, &n) != CUDA_SUCCESS) return {};
  std::vector<CUgraphNode> nodes(n);
  driver.cuGraphGetNodes(graph, nodes.data(), &n);
  if (driver.cuGraphGetEdges(graph, nullptr, nullptr, &edges) != CUDA_SUCCESS) return nodes;
  std::vector<CUgraphNode> from(edges), to(edges);
  if (driver.cuGraphGetEdges(graph, from.data(), to.data(), &edges) != CUDA_SUCCESS) return nodes;
  std::unordered_map<CUgraphNode, size_t> waits_for;
  for (CUgraphNode node : to) waits_for[node]++;
  std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> followers;
  for (size_t e = 0; e < edges; e++) followers[from[e]].push_back(to[e]);
  std::vector<CUgraphNode> ordered, ready;
  for (CUgraphNode node : nodes)
    if (!waits_for[node]) ready.push_back(node);
  for (size_t i = 0; i < ready.size(); i++) {
    ordered.push_back(ready[i]);
    for (CUgraphNode next : followers[ready[i]])
      if (--waits_for[next] == 0) ready.push_back(next);
  }
  return ordered.size() == nodes.size() ? ordered : nodes;
}

static void collect(CUgraph graph, std::vector<GraphKernel> *kernels) {
  for (CUgraphNode node : in_order(graph)) {
    CUgraphNodeType type;
    if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    CUDA_KERNEL_NODE_PARAMS_v2 params = {};
    CUgraph child;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL &&
        driver.cuGraphKernelNodeGetParams_v2(node, &params) == CUDA_SUCCESS) {
      GraphKernel kernel = {};
      kernel.node = node_id(node);
      kernel.enabled = true;
      take_params(&kernel, params);
      kernels->push_back(kernel);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
               driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      collect(child, kernels);
    }
  }
}

void Graphs::instantiated(CUgraphExec exec, CUgraph graph) {
  std::vector<GraphKernel> &kernels = execs_[exec];
  kernels.clear();
  collect(graph, &kernels);
}

void Graphs::cloned(CUgraphNode copy, CUgraphNode original) {
  uint64_t from = node_id(copy), to = node_id(original);
  std::lock_guard<std::mutex> hold(copies_lock_);
  if (from && to && from != to) original_[from] = to;
}

GraphKernel *Graphs::find(CUgraphExec exec, CUgraphNode node) {
  auto known = execs_.find(exec);
  if (known == execs_.end()) return nullptr;
  uint64_t id = node_id(node);
  for (GraphKernel &kernel : known->second)
    if (kernel.node == id) return &kernel;
  return nullptr;
}

void Graphs::set_params(CUgraphExec exec, CUgraphNode node,
                        const CUDA_KERNEL_NODE_PARAMS_v2 &params) {
  if (GraphKernel *kernel = find(exec, node)) take_params(kernel, params);
}

/* The driver pairs the nodes of both graphs, which must have the same shape; the executable graph
 * keeps its nodes and takes the new parameters. */
void Graphs::updated(CUgraphExec exec, CUgraph graph) {
  std::vector<GraphKernel> fresh;
  collect(graph, &fresh);
  std::vector<GraphKernel> &kernels = execs_[exec];
  if (fresh.size() != kernels.size()) {
    kernels = fresh;
    return;
  }
  for (size_t i = 0; i < fresh.size(); i++) {
    fresh[i].node = kernels[i].node;
    fresh[i].enabled = kernels[i].enabled;
  }
  kernels = fresh;
}

/* The child keeps its nodes, which are those of the graph that was instantiated. */
void Graphs::set_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  CUgraph embedded;
  std::vector<GraphKernel> before, fresh;
  if (driver.cuGraphChildGraphNodeGetGraph(node, &embedded) != CUDA_SUCCESS) return;
  collect(embedded, &before);
  collect(child, &fresh);
  for (GraphKernel &kernel : execs_[exec])
    for (size_t i = 0; i < before.size() && i < fresh.size(); i++) {
      if (kernel.node != before[i].node) continue;
      fresh[i].node = kernel.node;
      fresh[i].enabled = kernel.enabled;
      kernel = fresh[i];
      break;
    }
}

void Graphs::set_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) {
  if (GraphKernel *kernel = find(exec, node)) kernel->enabled = enabled;
}

std::vector<GraphKernel> Graphs::kernels(CUgraphExec exec) const {
  auto known = execs_.find(exec);
  return known == execs_.end() ? std::vector<GraphKernel>{} : known->second;
}

uint64_t Graphs::original_of(uint64_t node) const {
  std::lock_guard<std::mutex> hold(copies_lock_);
  auto known = original_.find(node);
  return known == original_.end() ? node : known->second;
}
