// SPDX-License-Identifier: Apache-2.0
// The nodes of clinst_protocol.h under construction.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "protocol/clinst_protocol.h"
#include "protocol/messages.hpp"

namespace clinst {

struct NotKnown {};  // the value depends on more than the launch, or takes too many nodes

// Expressions as a list of unique nodes, operands before users.
class Nodes {
 public:
  uint32_t constant(uint64_t value, unsigned bits) {
    return make({CLINST_CONSTANT, bits, 0, 0, 0, value});
  }
  uint32_t make(const Node &node);  // throws NotKnown
  uint32_t binary(uint32_t op, uint32_t a, uint32_t b) {
    return make({op, list_[a].bits, a, b, 0, 0});
  }
  uint32_t compared(uint32_t op, uint32_t a, uint32_t b) { return make({op, 1, a, b, 0, 0}); }
  // The least or the greatest by the order of `less`.
  uint32_t least(uint32_t less, uint32_t a, uint32_t b) {
    return choice(compared(less, a, b), a, b);
  }
  uint32_t greatest(uint32_t less, uint32_t a, uint32_t b) {
    return choice(compared(less, a, b), b, a);
  }
  uint32_t resized(uint32_t a, unsigned bits) {
    return list_[a].bits == bits ? a : make({CLINST_ZEXT, bits, a, 0, 0, 0});
  }
  unsigned bits(uint32_t node) const { return list_[node].bits; }
  bool is(uint32_t node, uint64_t value) const {
    return list_[node].op == CLINST_CONSTANT && list_[node].value == value;
  }
  uint32_t both(uint32_t a, uint32_t b);
  uint32_t either(uint32_t a, uint32_t b);
  uint32_t inverse(uint32_t a) { return make({CLINST_XOR, 1, a, constant(1, 1), 0, 0}); }
  uint32_t choice(uint32_t condition, uint32_t a, uint32_t b);
  // a, where the condition holds; elsewhere the launch has no analytic counts.
  uint32_t provided(uint32_t condition, uint32_t a) {
    return make({CLINST_PROVIDED, list_[a].bits, a, condition, 0, 0});
  }
  std::vector<Node> take() { return std::move(list_); }

 private:
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t> known_;
  std::vector<Node> list_;
};

}  // namespace clinst
