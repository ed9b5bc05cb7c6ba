// SPDX-License-Identifier: Apache-2.0
// Which edges of a control-flow graph must be counted so that every block's count follows
// (Knuth and Stevenson, "Optimal measurement points for program frequency counts", BIT 13, 1973).
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/messages.hpp"

namespace clinst {

struct FlowEdge {
  uint32_t from, to;
  double cost;  // estimated cost of counting this edge at run time
};

struct FlowPlan {
  std::vector<uint32_t> probes;               // indices of the edges to count, in probe order
  std::vector<std::vector<Term>> derivation;  // a list of terms per block, probe -1: entries
};

// Block 0 is the entry. Blocks without a successor are exits; all flow leaves there.
FlowPlan plan_flow(uint32_t n_blocks, const std::vector<FlowEdge> &edges);

}  // namespace clinst
