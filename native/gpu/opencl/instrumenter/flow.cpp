// SPDX-License-Identifier: Apache-2.0
#include "flow.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace clinst {
namespace {

class Forest {
 public:
  explicit Forest(uint32_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0u); }
  bool join(uint32_t a, uint32_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return false;
    parent_[a] = b;
    return true;
  }

 private:
  uint32_t root(uint32_t a) {
    while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
    return a;
  }
  std::vector<uint32_t> parent_;
};

using Sum = std::map<int32_t, int32_t>;  // probe -> factor

void add(Sum &to, const Sum &from, int32_t sign) {
  for (auto [probe, factor] : from) {
    if ((to[probe] += sign * factor) == 0) to.erase(probe);
  }
}

}  // namespace

FlowPlan plan_flow(uint32_t n_blocks, const std::vector<FlowEdge> &edges) {
  // An extra node represents the outside: it enters block 0 and receives the exits.
  const uint32_t outside = n_blocks;
  std::vector<FlowEdge> all = edges;
  std::vector<bool> leaves(n_blocks, false);
  for (const FlowEdge &edge : edges) leaves[edge.from] = true;
  for (uint32_t b = 0; b < n_blocks; b++) {
    if (!leaves[b]) all.push_back({b, outside, 1e300});
  }
  const uint32_t entry = all.size();
  all.push_back({outside, 0, -1.0});

  // Costly edges enter the tree first; the entry, known without a counter, enters only if nothing
  // else connects the graph (a program without an exit).
  std::vector<uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return all[a].cost > all[b].cost; });
  Forest forest(n_blocks + 1);
  std::vector<bool> in_tree(all.size(), false);
  for (uint32_t e : order) in_tree[e] = forest.join(all[e].from, all[e].to);

  FlowPlan plan;
  std::vector<Sum> count(all.size());
  std::vector<uint32_t> unknown(n_blocks + 1, 0);
  for (uint32_t e = 0; e < all.size(); e++) {
    if (in_tree[e]) {
      unknown[all[e].from]++;
      unknown[all[e].to]++;
    } else if (e == entry) {
      count[e] = {{-1, 1}};
    } else {
      count[e] = {{static_cast<int32_t>(plan.probes.size()), 1}};
      plan.probes.push_back(e);
    }
  }

  // A node with one unknown edge determines it: inflow equals outflow.
  std::vector<std::vector<uint32_t>> at(n_blocks + 1);
  for (uint32_t e = 0; e < all.size(); e++) {
    at[all[e].from].push_back(e);
    if (all[e].to != all[e].from) at[all[e].to].push_back(e);
  }
  std::vector<uint32_t> ready;
  for (uint32_t v = 0; v <= n_blocks; v++) {
    if (unknown[v] == 1) ready.push_back(v);
  }
  std::vector<bool> known(all.size());
  for (uint32_t e = 0; e < all.size(); e++) known[e] = !in_tree[e];
  while (!ready.empty()) {
    uint32_t v = ready.back();
    ready.pop_back();
    if (unknown[v] != 1) continue;
    uint32_t missing =
        *std::find_if(at[v].begin(), at[v].end(), [&](uint32_t e) { return !known[e]; });
    Sum sum;
    for (uint32_t e : at[v]) {
      if (e == missing || all[e].from == all[e].to) continue;
      add(sum, count[e], (all[e].to == v) == (all[missing].from == v) ? 1 : -1);
    }
    count[missing] = sum;
    known[missing] = true;
    unknown[v]--;
    uint32_t other = all[missing].from == v ? all[missing].to : all[missing].from;
    if (--unknown[other] == 1) ready.push_back(other);
  }

  plan.derivation.resize(n_blocks);
  for (uint32_t b = 0; b < n_blocks; b++) {
    Sum in, out;
    bool has_in = false;
    for (uint32_t e : at[b]) {
      if (all[e].to == b) add(in, count[e], 1), has_in = true;
      if (all[e].from == b) add(out, count[e], 1);
    }
    // Both equal the block's count; the shorter one is cheaper to evaluate for every warp.
    const Sum &shorter = has_in && in.size() <= out.size() ? in : out;
    for (auto [probe, factor] : shorter) plan.derivation[b].push_back({probe, factor});
  }
  return plan;
}

}  // namespace clinst
