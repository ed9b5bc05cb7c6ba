// SPDX-License-Identifier: Apache-2.0
#include "graphs.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

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

struct OrderedNodes {
  std::vector<CUgraphNode> nodes;
  std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> before;
};

/* Nodes before those that depend on them; otherwise in the order in which the driver lists them
 * (for a captured graph the order of the captured calls). Edges along which a kernel may begin
 * before the other is over are refused by the query: no order is known then. */
static OrderedNodes in_order(CUgraph graph) {
  size_t n = 0, edges = 0;
  OrderedNodes found;
  if (driver.cuGraphGetNodes(graph, nullptr, &n) != CUDA_SUCCESS) return found;
  found.nodes.resize(n);
  driver.cuGraphGetNodes(graph, found.nodes.data(), &n);
  if (driver.cuGraphGetEdges(graph, nullptr, nullptr, &edges) != CUDA_SUCCESS) return found;
  std::vector<CUgraphNode> from(edges), to(edges);
  if (driver.cuGraphGetEdges(graph, from.data(), to.data(), &edges) != CUDA_SUCCESS) return found;
  std::unordered_map<CUgraphNode, size_t> waits_for;
  std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> followers;
  for (size_t e = 0; e < edges; e++) {
    waits_for[to[e]]++;
    followers[from[e]].push_back(to[e]);
    found.before[to[e]].push_back(from[e]);
  }
  std::vector<CUgraphNode> ready;
  for (CUgraphNode node : found.nodes)
    if (!waits_for[node]) ready.push_back(node);
  for (size_t i = 0; i < ready.size(); i++)
    for (CUgraphNode next : followers[ready[i]])
      if (--waits_for[next] == 0) ready.push_back(next);
  if (ready.size() == found.nodes.size())
    found.nodes = ready;
  else
    found.before.clear();
  return found;
}

static void collect(CUgraph graph, const std::vector<uint32_t> &outer, GraphContent *content);

static uint32_t new_place(const std::vector<uint32_t> &before, GraphContent *content) {
  content->before.push_back(before);
  return static_cast<uint32_t>(content->before.size()) - 1;
}

/* The place at which the node is over. */
static uint32_t collect_node(CUgraphNode node, const std::vector<uint32_t> &before,
                             GraphContent *content) {
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS_v2 params = {};
  CUgraph child;
  uint32_t place = new_place(before, content);
  if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return place;
  if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) content->device_decides = true;
  if (type == CU_GRAPH_NODE_TYPE_KERNEL &&
      driver.cuGraphKernelNodeGetParams_v2(node, &params) == CUDA_SUCCESS) {
    GraphKernel kernel = {};
    kernel.node = node_id(node);
    kernel.enabled = true;
    kernel.place = place;
    take_params(&kernel, params);
    content->kernels.push_back(kernel);
  } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
             driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
    collect(child, {place}, content);
    std::vector<uint32_t> whole(content->before.size() - place);
    std::iota(whole.begin(), whole.end(), place);
    return new_place(whole, content);
  }
  return place;
}

static void collect(CUgraph graph, const std::vector<uint32_t> &outer, GraphContent *content) {
  const OrderedNodes found = in_order(graph);
  std::unordered_map<CUgraphNode, uint32_t> over;
  for (CUgraphNode node : found.nodes) {
    std::vector<uint32_t> before = outer;
    auto its = found.before.find(node);
    if (its != found.before.end())
      for (CUgraphNode other : its->second) before.push_back(over[other]);
    over[node] = collect_node(node, before, content);
  }
}

static GraphContent content_of(CUgraph graph) {
  GraphContent content;
  collect(graph, {}, &content);
  return content;
}

bool is_before(const GraphContent &content, uint32_t first, uint32_t second) {
  std::vector<uint32_t> work = {second};
  std::unordered_set<uint32_t> seen;
  while (!work.empty()) {
    uint32_t at = work.back();
    work.pop_back();
    if (at == first) return true;
    for (uint32_t before : content.before[at])
      if (before >= first && seen.insert(before).second) work.push_back(before);
  }
  return false;
}

void Graphs::instantiated(CUgraphExec exec, CUgraph graph) { execs_[exec] = content_of(graph); }

void Graphs::cloned(CUgraphNode copy, CUgraphNode original) {
  uint64_t from = node_id(copy), to = node_id(original);
  std::lock_guard<std::mutex> hold(copies_lock_);
  if (from && to && from != to) original_[from] = to;
}

GraphKernel *Graphs::find(CUgraphExec exec, CUgraphNode node) {
  auto known = execs_.find(exec);
  if (known == execs_.end()) return nullptr;
  uint64_t id = node_id(node);
  for (GraphKernel &kernel : known->second.kernels)
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
  GraphContent fresh = content_of(graph);
  std::vector<GraphKernel> &kernels = execs_[exec].kernels;
  for (size_t i = 0; i < fresh.kernels.size() && fresh.kernels.size() == kernels.size(); i++) {
    fresh.kernels[i].node = kernels[i].node;
    fresh.kernels[i].enabled = kernels[i].enabled;
  }
  execs_[exec] = fresh;
}

/* The child keeps its nodes, which are those of the graph that was instantiated. */
void Graphs::set_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  CUgraph embedded;
  if (driver.cuGraphChildGraphNodeGetGraph(node, &embedded) != CUDA_SUCCESS) return;
  const std::vector<GraphKernel> before = content_of(embedded).kernels;
  std::vector<GraphKernel> fresh = content_of(child).kernels;
  for (GraphKernel &kernel : execs_[exec].kernels)
    for (size_t i = 0; i < before.size() && i < fresh.size(); i++) {
      if (kernel.node != before[i].node) continue;
      fresh[i].node = kernel.node;
      fresh[i].enabled = kernel.enabled;
      fresh[i].place = kernel.place;
      kernel = fresh[i];
      break;
    }
}

void Graphs::set_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) {
  if (GraphKernel *kernel = find(exec, node)) kernel->enabled = enabled;
}

const GraphContent &Graphs::content(CUgraphExec exec) const {
  static const GraphContent unknown;
  auto known = execs_.find(exec);
  return known == execs_.end() ? unknown : known->second;
}

uint64_t Graphs::original_of(uint64_t node) const {
  std::lock_guard<std::mutex> hold(copies_lock_);
  auto known = original_.find(node);
  return known == original_.end() ? node : known->second;
}
