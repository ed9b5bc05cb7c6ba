// SPDX-License-Identifier: Apache-2.0
#include "counters/expressions.hpp"

#include <algorithm>

#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

using clinst::Node;

uint64_t mask_of(unsigned bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

int64_t as_signed(uint64_t value, unsigned bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

bool negative(uint64_t value, unsigned bits) { return value >> (bits - 1) & 1; }

uint64_t divided(uint32_t op, uint64_t a, uint64_t b, unsigned bits) {
  if (!b) return 0;
  if (op == CLINST_UDIV) return a / b;
  if (op == CLINST_UREM) return a % b;
  int64_t x = as_signed(a, bits), y = as_signed(b, bits);
  if (y == -1) return op == CLINST_SDIV ? 0 - a : 0;
  return static_cast<uint64_t>(op == CLINST_SDIV ? x / y : x % y);
}

uint64_t shifted(uint32_t op, uint64_t a, uint64_t b, unsigned bits) {
  if (b >= bits) return 0;
  if (op == CLINST_SHL) return a << b;
  return op == CLINST_LSHR ? a >> b : static_cast<uint64_t>(as_signed(a, bits) >> b);
}

// The exact value of an operation on two numbers; `bits` is the operands' width.
uint64_t exactly(uint32_t op, uint64_t a, uint64_t b, unsigned bits) {
  switch (op) {
    case CLINST_ADD:
      return a + b;
    case CLINST_SUB:
      return a - b;
    case CLINST_MUL:
      return a * b;
    case CLINST_AND:
      return a & b;
    case CLINST_OR:
      return a | b;
    case CLINST_XOR:
      return a ^ b;
    case CLINST_SHL:
    case CLINST_LSHR:
    case CLINST_ASHR:
      return shifted(op, a, b, bits);
    case CLINST_EQUAL:
      return a == b;
    case CLINST_ULESS:
      return a < b;
    case CLINST_SLESS:
      return as_signed(a, bits) < as_signed(b, bits);
    default:
      return divided(op, a, b, bits);
  }
}

// The same over ranges, as narrow as is cheap; always correct, at worst the whole range.
Values ranged(uint32_t op, Values a, Values b, unsigned bits, unsigned width) {
  const Values all{0, mask_of(width)};
  const uint64_t top = mask_of(bits);
  switch (op) {
    case CLINST_ADD: {
      auto low = static_cast<unsigned __int128>(a.lo) + b.lo;
      auto high = static_cast<unsigned __int128>(a.hi) + b.hi;
      if ((low > top) != (high > top)) return all;
      return {static_cast<uint64_t>(low) & top, static_cast<uint64_t>(high) & top};
    }
    case CLINST_SUB:
      if ((a.lo < b.hi) != (a.hi < b.lo)) return all;
      return {(a.lo - b.hi) & top, (a.hi - b.lo) & top};
    case CLINST_MUL: {
      auto high = static_cast<unsigned __int128>(a.hi) * b.hi;
      if (high > top) return all;
      return {a.lo * b.lo, static_cast<uint64_t>(high)};
    }
    case CLINST_AND:
      return width == 1 ? Values{a.lo & b.lo, a.hi & b.hi} : Values{0, std::min(a.hi, b.hi)};
    case CLINST_OR:
      return width == 1 ? Values{a.lo | b.lo, a.hi | b.hi} : all;
    case CLINST_UDIV:
      return b.lo ? Values{a.lo / b.hi, a.hi / b.lo} : all;
    case CLINST_UREM:
      if (!b.one() || !b.lo || a.lo / b.lo != a.hi / b.lo) return all;
      return {a.lo % b.lo, a.hi % b.lo};
    case CLINST_LSHR:
      return b.one() && b.lo < bits ? Values{a.lo >> b.lo, a.hi >> b.lo} : all;
    case CLINST_EQUAL:
      return a.hi < b.lo || b.hi < a.lo ? Values{0, 0} : all;
    case CLINST_SLESS:
      // A range within one sign keeps its order as signed numbers.
      if (negative(a.lo, bits) != negative(a.hi, bits) ||
          negative(b.lo, bits) != negative(b.hi, bits))
        return all;
      if (negative(a.lo, bits) != negative(b.lo, bits)) {
        uint64_t less = negative(a.lo, bits);
        return {less, less};
      }
      [[fallthrough]];
    case CLINST_ULESS:
      return {a.hi < b.lo, a.lo < b.hi};
    default:
      return all;
  }
}

std::vector<uint32_t> operands(const Node &node) {
  if (node.op <= CLINST_QUERY) return {};
  if (node.op == CLINST_SELECT) return {node.a, node.b, node.c};
  if (node.op >= CLINST_ZEXT) return {node.a};
  return {node.a, node.b};
}

}  // namespace

Expressions::Expressions(const InstrumentedKernel &kernel, const LaunchFacts &facts, size_t most)
    : kernel_(kernel),
      facts_(facts),
      values_(kernel.nodes.size()),
      along_x_(values_.size()),
      most_(most) {
  for (size_t n = 0; n < values_.size(); n++) along_x_[n] = hangs_on_x(kernel.nodes[n]);
  std::vector<bool> row(values_.size());
  for (size_t n = 0; n < values_.size(); n++)
    if (along_x_[n])
      for (uint32_t operand : operands(kernel.nodes[n])) row[operand] = !along_x_[operand];
  for (const auto &output : kernel.outputs)
    if (!along_x_[output.node]) row[output.node] = true;
  for (uint32_t n = 0; n < row.size(); n++)
    if (row[n]) of_row_.push_back(n);
}

void Expressions::evaluate(const Box &box) {
  if (evaluations_ + values_.size() > most_) throw TooCostly();
  evaluations_ += values_.size();
  for (size_t n = 0; n < values_.size(); n++) values_[n] = value(kernel_.nodes[n], box);
}
bool Expressions::of_row(std::vector<uint64_t> *key) const {
  key->clear();
  for (uint32_t n : of_row_) {
    if (!values_[n].one()) return false;
    key->push_back(values_[n].lo);
  }
  return true;
}

bool Expressions::probes(std::vector<uint64_t> *row) const {
  row->clear();
  for (const auto &output : kernel_.outputs) {
    const Values &value = values_[output.node];
    if (!value.one()) return false;
    row->push_back(value.lo >> output.shift & mask_of(output.bits));
  }
  return true;
}

bool Expressions::hangs_on_x(const Node &node) const {
  if (node.op == CLINST_QUERY)
    return node.b == 0 && (node.a <= CLINST_GROUP_ID || node.a == CLINST_LOCAL_SIZE);
  for (uint32_t operand : operands(node))
    if (along_x_[operand]) return true;
  return false;
}

Values Expressions::query(const Node &node, const Box &box) const {
  const Geometry &g = facts_.geometry;
  const uint32_t d = node.b;
  const uint64_t first = box.first[d], last = box.last[d], local = g.local[d];
  const uint64_t from = first / local, to = last / local;
  auto one = [](uint64_t value) { return Values{value, value}; };
  switch (node.a) {
    case CLINST_GLOBAL_ID:
      return {facts_.offset[d] + first, facts_.offset[d] + last};
    case CLINST_LOCAL_ID:
      if (d == 0) return {box.local[0], box.local[1]};
      return from == to ? Values{first - from * local, last - from * local} : Values{0, local - 1};
    case CLINST_GROUP_ID:
      return {from, to};
    case CLINST_GLOBAL_SIZE:
      return one(g.global[d]);
    case CLINST_LOCAL_SIZE:
      return {std::min(local, g.global[d] - to * local),
              std::min(local, g.global[d] - from * local)};
    case CLINST_ENQUEUED_LOCAL_SIZE:
      return one(local);
    case CLINST_NUM_GROUPS:
      return one(g.groups[d]);
    default:
      return one(facts_.offset[d]);
  }
}

Values Expressions::value(const Node &node, const Box &box) const {
  const uint64_t top = mask_of(node.bits);
  switch (node.op) {
    case CLINST_CONSTANT:
      return {node.value & top, node.value & top};
    case CLINST_ARGUMENT:
      return {facts_.arguments[node.value] & top, facts_.arguments[node.value] & top};
    case CLINST_QUERY: {
      Values found = query(node, box);
      return found.hi > top ? Values{0, top} : found;
    }
    case CLINST_SELECT: {
      const Values &condition = values_[node.a], &b = values_[node.b], &c = values_[node.c];
      if (condition.one()) return condition.lo ? b : c;
      return {std::min(b.lo, c.lo), std::max(b.hi, c.hi), condition.unsure || b.unsure || c.unsure};
    }
    case CLINST_PROVIDED: {
      const Values &a = values_[node.a], &condition = values_[node.b];
      return {a.lo, a.hi, a.unsure || !condition.one() || !condition.lo};
    }
    case CLINST_ZEXT: {
      const Values &a = values_[node.a];
      if (a.lo == a.hi) return {a.lo & top, a.lo & top, a.unsure};
      return a.hi > top ? Values{0, top, a.unsure} : a;
    }
    case CLINST_SEXT: {
      const Values &a = values_[node.a];
      unsigned bits = kernel_.nodes[node.a].bits;
      if (negative(a.lo, bits) != negative(a.hi, bits)) return {0, top, a.unsure};
      return {static_cast<uint64_t>(as_signed(a.lo, bits)) & top,
              static_cast<uint64_t>(as_signed(a.hi, bits)) & top, a.unsure};
    }
    default:
      return computed(node);
  }
}

// An operation on two values.
Values Expressions::computed(const Node &node) const {
  const Values &a = values_[node.a], &b = values_[node.b];
  const unsigned bits = kernel_.nodes[node.a].bits;
  Values result = ranged(node.op, a, b, bits, node.bits);
  if (a.lo == a.hi && b.lo == b.hi)
    result.lo = result.hi = exactly(node.op, a.lo, b.lo, bits) & mask_of(node.bits);
  result.unsure = a.unsure || b.unsure;
  return result;
}

}  // namespace layer
