// SPDX-License-Identifier: Apache-2.0
#include "nodes.h"

namespace clinst {
namespace {

constexpr size_t kMostNodes = 2000;

}  // namespace

uint32_t Nodes::make(const Node &node) {
  auto key = std::make_tuple(node.op, node.bits, node.a, node.b, node.c, node.value);
  auto [at, fresh] = known_.try_emplace(key, list_.size());
  if (fresh) list_.push_back(node);
  if (list_.size() > kMostNodes) throw NotKnown();
  return at->second;
}

uint32_t Nodes::both(uint32_t a, uint32_t b) {
  if (is(a, 1) || is(b, 0)) return b;
  if (is(b, 1) || is(a, 0)) return a;
  return make({CLINST_AND, 1, a, b, 0, 0});
}

uint32_t Nodes::either(uint32_t a, uint32_t b) {
  if (is(a, 0) || is(b, 1)) return b;
  if (is(b, 0) || is(a, 1)) return a;
  return make({CLINST_OR, 1, a, b, 0, 0});
}

uint32_t Nodes::choice(uint32_t condition, uint32_t a, uint32_t b) {
  if (a == b || is(condition, 1)) return a;
  if (is(condition, 0)) return b;
  return make({CLINST_SELECT, list_[a].bits, condition, a, b, 0});
}

}  // namespace clinst
