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

// The graph, closed by an extra node for the outside, which enters block 0 and receives the exits.
class Circulation {
 public:
  Circulation(uint32_t n_blocks, const std::vector<FlowEdge> &edges)
      : outside_(n_blocks), edges_(edges), at_(n_blocks + 1) {
    std::vector<bool> leaves(n_blocks, false);
    for (const FlowEdge &edge : edges) leaves[edge.from] = true;
    for (uint32_t b = 0; b < n_blocks; b++) {
      if (!leaves[b]) edges_.push_back({b, outside_, 1e300});
    }
    edges_.push_back({outside_, 0, -1.0});
    for (uint32_t e = 0; e < edges_.size(); e++) {
      at_[edges_[e].from].push_back(e);
      if (edges_[e].to != edges_[e].from) at_[edges_[e].to].push_back(e);
    }
    counts_.resize(edges_.size());
  }

  FlowPlan plan() {
    FlowPlan plan;
    const std::vector<bool> in_tree = spanning_tree();
    plan.probes = count_outside(in_tree);
    count_inside(in_tree);
    for (uint32_t b = 0; b < outside_; b++) plan.derivation.push_back(derivation_of(b));
    return plan;
  }

 private:
  // Costly edges enter the tree first; the entry, known without a counter, enters only if nothing
  // else connects the graph (a program without an exit).
  std::vector<bool> spanning_tree() const {
    std::vector<uint32_t> order(edges_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return edges_[a].cost > edges_[b].cost; });
    Forest forest(outside_ + 1);
    std::vector<bool> in_tree(edges_.size());
    for (uint32_t e : order) in_tree[e] = forest.join(edges_[e].from, edges_[e].to);
    return in_tree;
  }

  // Edges outside the tree are counted, but for the entry. Returns those that are.
  std::vector<uint32_t> count_outside(const std::vector<bool> &in_tree) {
    const uint32_t entry = edges_.size() - 1;
    std::vector<uint32_t> probes;
    for (uint32_t e = 0; e < edges_.size(); e++) {
      if (in_tree[e]) continue;
      counts_[e] = {{e == entry ? -1 : static_cast<int32_t>(probes.size()), 1}};
      if (e != entry) probes.push_back(e);
    }
    return probes;
  }

  // A node with one unknown edge determines it: inflow equals outflow.
  void count_inside(const std::vector<bool> &in_tree) {
    std::vector<bool> known = in_tree;
    known.flip();
    std::vector<uint32_t> unknown(at_.size(), 0), ready;
    for (uint32_t e = 0; e < edges_.size(); e++) {
      if (in_tree[e]) unknown[edges_[e].from]++, unknown[edges_[e].to]++;
    }
    for (uint32_t v = 0; v < unknown.size(); v++) {
      if (unknown[v] == 1) ready.push_back(v);
    }
    while (!ready.empty()) {
      const uint32_t v = ready.back();
      ready.pop_back();
      if (unknown[v] != 1) continue;
      const uint32_t missing =
          *std::find_if(at_[v].begin(), at_[v].end(), [&](uint32_t e) { return !known[e]; });
      counts_[missing] = balance(v, missing);
      known[missing] = true;
      unknown[v]--;
      const uint32_t other = edges_[missing].from == v ? edges_[missing].to : edges_[missing].from;
      if (--unknown[other] == 1) ready.push_back(other);
    }
  }

  // The count of the one edge that is missing at a node.
  Sum balance(uint32_t node, uint32_t missing) const {
    Sum sum;
    for (uint32_t e : at_[node]) {
      if (e == missing || edges_[e].from == edges_[e].to) continue;
      add(sum, counts_[e], (edges_[e].to == node) == (edges_[missing].from == node) ? 1 : -1);
    }
    return sum;
  }

  std::vector<Term> derivation_of(uint32_t block) const {
    Sum in, out;
    bool has_in = false;
    for (uint32_t e : at_[block]) {
      if (edges_[e].to == block) add(in, counts_[e], 1), has_in = true;
      if (edges_[e].from == block) add(out, counts_[e], 1);
    }
    // Both equal the block's count; the shorter one is cheaper to evaluate for every warp.
    std::vector<Term> terms;
    for (auto [probe, factor] : has_in &&in.size() <= out.size() ? in : out)
      terms.push_back({probe, factor});
    return terms;
  }

  uint32_t outside_;
  std::vector<FlowEdge> edges_;            // the exits and, last, the entry follow the program's
  std::vector<std::vector<uint32_t>> at_;  // edges of each node
  std::vector<Sum> counts_;                // of each edge
};

}  // namespace

FlowPlan plan_flow(uint32_t n_blocks, const std::vector<FlowEdge> &edges) {
  return Circulation(n_blocks, edges).plan();
}

}  // namespace clinst
