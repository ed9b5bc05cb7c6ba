#include "counters/host_counts.hpp"

#include <algorithm>
#include <map>

#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

// Above these a launch had better count for itself; the whole of it takes about a millisecond.
constexpr size_t most_steps = 3000;  // evaluations of all nodes
constexpr size_t most_rows = size_t{1} << 20;
constexpr size_t most_pattern_warps = size_t{1} << 14;
constexpr size_t most_places = size_t{1} << 22;  // for patterns; 24 bytes each
constexpr size_t most_kept_words = size_t{1} << 22;
constexpr unsigned most_refusals = 4;  // of a kernel, before it is asked no more

struct TooCostly {};

// The values that a node takes in a box of work-items: all lie in lo..hi.
struct Values {
  uint64_t lo, hi;
  bool one() const { return lo == hi; }
};

struct Box {
  uint64_t first[3], last[3];  // global indices without the offset, both ends included
};

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

// The same over ranges, as narrow as is cheap; always right, at worst the whole range.
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
      // A range that does not cross from positive to negative keeps its order with the sign.
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

// Evaluates the nodes of a kernel over boxes of work-items.
class Nodes {
 public:
  Nodes(const InstrumentedKernel &kernel, const LaunchFacts &facts)
      : kernel_(kernel), facts_(facts), values_(kernel.nodes.size()), along_x_(values_.size()) {
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

  void evaluate(const Box &box) {
    if (++steps_ > most_steps) throw TooCostly();
    for (size_t n = 0; n < values_.size(); n++) values_[n] = value(kernel_.nodes[n], box);
  }
  // What a row's work-items have in common and their counts hang on; false: it is not the same
  // for all rows of the box.
  bool of_row(std::vector<uint64_t> *key) const {
    key->clear();
    for (uint32_t n : of_row_) {
      if (!values_[n].one()) return false;
      key->push_back(values_[n].lo);
    }
    return true;
  }
  // The probes of a work-item; false: not the same for all of the box.
  bool probes(std::vector<uint64_t> *row) const {
    row->clear();
    for (const auto &output : kernel_.outputs) {
      const Values &value = values_[output.node];
      if (!value.one()) return false;
      row->push_back(value.lo >> output.shift & mask_of(output.bits));
    }
    return true;
  }

 private:
  using Node = InstrumentedKernel::Node;

  static std::vector<uint32_t> operands(const Node &node) {
    if (node.op <= CLINST_QUERY) return {};
    if (node.op == CLINST_SELECT) return {node.a, node.b, node.c};
    if (node.op >= CLINST_ZEXT) return {node.a};
    return {node.a, node.b};
  }

  bool hangs_on_x(const Node &node) const {
    if (node.op == CLINST_QUERY)
      return node.b == 0 && (node.a <= CLINST_GROUP_ID || node.a == CLINST_LOCAL_SIZE);
    for (uint32_t operand : operands(node))
      if (along_x_[operand]) return true;
    return false;
  }

  Values query(const Node &node, const Box &box) const {
    const Geometry &g = facts_.geometry;
    const uint32_t d = node.b;
    const uint64_t first = box.first[d], last = box.last[d], local = g.local[d];
    const uint64_t from = first / local, to = last / local;
    auto one = [](uint64_t value) { return Values{value, value}; };
    switch (node.a) {
      case CLINST_GLOBAL_ID:
        return {facts_.offset[d] + first, facts_.offset[d] + last};
      case CLINST_LOCAL_ID:
        return from == to ? Values{first - from * local, last - from * local}
                          : Values{0, local - 1};
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

  Values value(const Node &node, const Box &box) const {
    const uint64_t top = mask_of(node.bits);
    switch (node.op) {
      case CLINST_CONSTANT:
        return {node.value & top, node.value & top};
      case CLINST_ARGUMENT:
        return {facts_.arguments[node.a] & top, facts_.arguments[node.a] & top};
      case CLINST_QUERY: {
        Values found = query(node, box);
        return found.hi > top ? Values{0, top} : found;
      }
      case CLINST_SELECT: {
        const Values &condition = values_[node.a], &b = values_[node.b], &c = values_[node.c];
        if (condition.one()) return condition.lo ? b : c;
        return {std::min(b.lo, c.lo), std::max(b.hi, c.hi)};
      }
      case CLINST_ZEXT: {
        const Values &a = values_[node.a];
        if (a.one()) return {a.lo & top, a.lo & top};
        return a.hi > top ? Values{0, top} : a;
      }
      case CLINST_SEXT: {
        const Values &a = values_[node.a];
        unsigned bits = kernel_.nodes[node.a].bits;
        if (negative(a.lo, bits) != negative(a.hi, bits)) return {0, top};
        return {static_cast<uint64_t>(as_signed(a.lo, bits)) & top,
                static_cast<uint64_t>(as_signed(a.hi, bits)) & top};
      }
      default: {
        const Values &a = values_[node.a], &b = values_[node.b];
        unsigned bits = kernel_.nodes[node.a].bits;
        if (!a.one() || !b.one()) return ranged(node.op, a, b, bits, node.bits);
        uint64_t exact = exactly(node.op, a.lo, b.lo, bits) & top;
        return {exact, exact};
      }
    }
  }

  const InstrumentedKernel &kernel_;
  const LaunchFacts &facts_;
  std::vector<Values> values_;
  std::vector<bool> along_x_;
  std::vector<uint32_t> of_row_;
  size_t steps_ = 0;
};

// A stretch of a row in which all work-items have the same counts.
struct Stretch {
  uint64_t end;
  std::vector<uint64_t> probes;
};
using Row = std::vector<Stretch>;

// Cuts a launch into rows along x and these into stretches, by halving what is not the same all
// over; rows of one kind are looked at once. Then the warps of a group follow, again once a kind.
class LaunchCounts {
 public:
  LaunchCounts(const InstrumentedKernel &kernel, const LaunchFacts &facts)
      : kernel_(kernel), geometry_(facts.geometry), nodes_(kernel, facts) {}

  WarpClasses find() {
    const uint64_t *global = geometry_.global;
    if (global[1] > most_rows || global[2] > most_rows || global[1] * global[2] > most_rows)
      throw TooCostly();
    kind_.resize(global[1] * global[2]);
    cut_rows(0, kind_.size() - 1);
    for (const Row &row : rows_)
      for (const Stretch &stretch : row) cuts_.push_back(stretch.end);
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    uint64_t group[3];
    for (group[2] = 0; group[2] < geometry_.groups[2]; group[2]++)
      for (group[1] = 0; group[1] < geometry_.groups[1]; group[1]++) add_groups(group);
    return std::move(classes_);
  }

 private:
  using Pattern = std::vector<std::pair<uint32_t, uint64_t>>;  // vector, number of warps

  Box rows_box(uint64_t from, uint64_t to) const {
    const uint64_t *global = geometry_.global;
    bool plane = from / global[1] == to / global[1];
    return {{0, plane ? from % global[1] : 0, from / global[1]},
            {global[0] - 1, plane ? to % global[1] : global[1] - 1, to / global[1]}};
  }

  void cut_rows(uint64_t from, uint64_t to) {
    nodes_.evaluate(rows_box(from, to));
    std::vector<uint64_t> key;
    if (nodes_.of_row(&key)) {
      auto [at, fresh] = row_of_key_.try_emplace(key, rows_.size());
      if (fresh) {
        rows_.emplace_back();
        cut_row(rows_box(from, from), &rows_.back());
      }
      std::fill(kind_.begin() + static_cast<ptrdiff_t>(from),
                kind_.begin() + static_cast<ptrdiff_t>(to) + 1, at->second);
      return;
    }
    uint64_t width = geometry_.global[1], middle = from + (to - from) / 2;
    if (from / width != to / width) middle = (middle / width + 1) * width - 1;  // planes first
    cut_rows(from, middle);
    cut_rows(middle + 1, to);
  }

  void cut_row(const Box &box, Row *row) {
    nodes_.evaluate(box);
    std::vector<uint64_t> probes;
    if (nodes_.probes(&probes)) {
      if (!row->empty() && row->back().probes == probes)
        row->back().end = box.last[0] + 1;
      else
        row->push_back({box.last[0] + 1, std::move(probes)});
      return;
    }
    Box left = box, right = box;
    left.last[0] = box.first[0] + (box.last[0] - box.first[0]) / 2;
    right.first[0] = left.last[0] + 1;
    cut_row(left, row);
    cut_row(right, row);
  }

  // A row of groups along x.
  void add_groups(uint64_t group[3]) {
    std::vector<uint32_t> kinds;
    const uint64_t *global = geometry_.global, *local = geometry_.local;
    for (uint64_t z = group[2] * local[2]; z < std::min(global[2], (group[2] + 1) * local[2]); z++)
      for (uint64_t y = group[1] * local[1]; y < std::min(global[1], (group[1] + 1) * local[1]);
           y++)
        kinds.push_back(kind_[z * global[1] + y]);
    auto [at, fresh] = patterns_of_kinds_.try_emplace(kinds, patterns_.size());
    const size_t places = cuts_.size() + geometry_.groups[0];
    if (places > most_places / patterns_of_kinds_.size()) throw TooCostly();
    if (fresh) patterns_.emplace_back(places);
    size_t number = at->second, cut = 0;
    for (uint64_t x = 0; x < global[0]; x += local[0]) {
      while (cuts_[cut] <= x) cut++;
      // All groups between two cuts are alike.
      bool whole = x + local[0] <= cuts_[cut];
      Pattern &pattern = patterns_[number][whole ? cut : cuts_.size() + x / local[0]];
      if (pattern.empty()) pattern = make_pattern(kinds, x);
      for (const auto &run : pattern) append(run.first, run.second);
    }
  }

  void append(uint32_t vector, uint64_t warps) {
    if (!classes_.run_vector.empty() && classes_.run_vector.back() == vector) {
      classes_.run_length.back() += warps;
    } else {
      classes_.run_vector.push_back(vector);
      classes_.run_length.push_back(warps);
    }
  }

  Pattern make_pattern(const std::vector<uint32_t> &kinds, uint64_t begin) {
    const uint64_t end = std::min(geometry_.global[0], begin + geometry_.local[0]);
    Pattern pattern;
    warp_.assign(kernel_.n_probes, 0);
    lanes_ = 0;
    for (uint32_t kind : kinds) {
      const Row &row = rows_[kind];
      auto stretch = std::upper_bound(row.begin(), row.end(), begin,
                                      [](uint64_t x, const Stretch &s) { return x < s.end; });
      for (uint64_t x = begin; x < end;) {
        uint64_t items = std::min({stretch->end, end, x + geometry_.warp_size() - lanes_}) - x;
        for (size_t p = 0; p < warp_.size(); p++) warp_[p] += stretch->probes[p] * items;
        lanes_ += items;
        x += items;
        if (x == stretch->end) ++stretch;
        if (lanes_ == geometry_.warp_size()) close_warp(&pattern);
      }
      if (geometry_.sub_group && lanes_) close_warp(&pattern);
    }
    if (lanes_) close_warp(&pattern);
    return pattern;
  }

  void close_warp(Pattern *pattern) {
    if (++pattern_warps_ > most_pattern_warps) throw TooCostly();
    warp_.push_back(lanes_);
    auto [at, fresh] = vector_of_.try_emplace(warp_, classes_.n_vectors);
    warp_.pop_back();
    if (fresh) append_counts(kernel_, warp_.data(), static_cast<uint32_t>(lanes_), &classes_);
    if (!pattern->empty() && pattern->back().first == at->second)
      pattern->back().second++;
    else
      pattern->emplace_back(at->second, 1);
    std::fill(warp_.begin(), warp_.end(), 0);
    lanes_ = 0;
  }

  const InstrumentedKernel &kernel_;
  const Geometry &geometry_;
  Nodes nodes_;
  std::map<std::vector<uint64_t>, uint32_t> row_of_key_;
  std::vector<Row> rows_;
  std::vector<uint32_t> kind_;  // of every row of the launch
  std::vector<uint64_t> cuts_;  // where a stretch of any row ends
  std::map<std::vector<uint32_t>, size_t> patterns_of_kinds_;
  std::vector<std::vector<Pattern>> patterns_;  // by kinds of rows, then by place along x
  std::vector<uint64_t> warp_;                  // of the warp under way: its probes
  uint64_t lanes_ = 0;                          // and its work-items
  size_t pattern_warps_ = 0;
  std::map<std::vector<uint64_t>, uint32_t> vector_of_;
  WarpClasses classes_;
};

std::string key_of(const LaunchFacts &facts) {
  std::string key;
  auto add = [&](const uint64_t *values, size_t n) {
    key.append(reinterpret_cast<const char *>(values), n * sizeof *values);
  };
  add(facts.geometry.global, 3);
  add(facts.geometry.local, 3);
  add(facts.offset, 3);
  add(facts.arguments.data(), facts.arguments.size());
  return key;
}

}  // namespace

std::shared_ptr<const WarpClasses> HostCounts::find(const LaunchFacts &facts) {
  std::lock_guard<std::mutex> guard(lock_);
  std::string key = key_of(facts);
  if (auto at = known_.find(key); at != known_.end()) return at->second;
  if (refused_ >= most_refusals) return nullptr;
  std::shared_ptr<const WarpClasses> found;
  try {
    found = std::make_shared<WarpClasses>(LaunchCounts(kernel_, facts).find());
  } catch (const TooCostly &) {
    refused_++;
  }
  size_t words = key.size() + (found ? found->counts.size() + 2 * found->run_vector.size() : 0);
  if (kept_ + words > most_kept_words) {
    known_.clear();
    kept_ = 0;
  }
  kept_ += words;
  return known_[key] = found;
}

}  // namespace layer
