// SPDX-License-Identifier: Apache-2.0
#include "counters/analytic_counts.hpp"

#include <algorithm>
#include <map>

namespace layer {

namespace {

// Above these limits a launch should count for itself.
constexpr size_t most_rows = size_t{1} << 20;
constexpr size_t most_pattern_warps = size_t{1} << 14;
constexpr size_t most_places = size_t{1} << 22;  // for patterns; 24 bytes each
constexpr size_t most_kept_words = size_t{1} << 22;

// Evaluations of a node, some 8 ns each: what a kernel may have in store, and what each launch
// adds. So new launches never take long on average, whatever their arguments.
constexpr size_t most_credit = size_t{1} << 22;
constexpr size_t credit_a_launch = size_t{1} << 11;

// A stretch of a row of a group, whose work-items all have the same counts.
struct Stretch {
  uint64_t end;  // a local index
  std::vector<uint64_t> probes;
};

// Consecutive groups of a row, cut in the same way.
struct Groups {
  uint64_t end;
  std::vector<Stretch> stretches;
};
using Row = std::vector<Groups>;

// Cuts a launch into rows along x and these into groups and stretches of them, by halving what is
// not uniform; rows of the same kind are examined once, and so are groups. The warps of a group
// follow, again once per kind.
class LaunchCounts {
 public:
  LaunchCounts(const InstrumentedKernel &kernel, const LaunchFacts &facts, size_t credit)
      : kernel_(kernel), geometry_(facts.geometry), expressions_(kernel, facts, credit) {}

  size_t evaluations() const { return expressions_.evaluations(); }

  WarpClasses find() {
    const uint64_t *global = geometry_.global;
    if (global[1] > most_rows || global[2] > most_rows || global[1] * global[2] > most_rows)
      throw TooCostly();
    kind_.resize(global[1] * global[2]);
    cut_rows(0, kind_.size() - 1);
    for (const Row &row : rows_)
      for (const Groups &groups : row) cuts_.push_back(groups.end);
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
            {global[0] - 1, plane ? to % global[1] : global[1] - 1, to / global[1]},
            {0, std::min(global[0], geometry_.local[0]) - 1}};
  }

  void cut_rows(uint64_t from, uint64_t to) {
    expressions_.evaluate(rows_box(from, to));
    std::vector<uint64_t> key;
    if (expressions_.of_row(&key)) {
      auto [at, fresh] = row_of_key_.try_emplace(key, rows_.size());
      if (fresh) {
        rows_.emplace_back();
        cut_row(rows_box(from, from), &rows_.back());
      }
      std::fill(kind_.begin() + static_cast<ptrdiff_t>(from),
                kind_.begin() + static_cast<ptrdiff_t>(to) + 1, at->second);
      return;
    }
    if (from == to) throw Unsure();
    uint64_t width = geometry_.global[1], middle = from + (to - from) / 2;
    if (from / width != to / width) middle = (middle / width + 1) * width - 1;  // planes first
    cut_rows(from, middle);
    cut_rows(middle + 1, to);
  }

  void cut_row(const Box &box, Row *row) {
    const uint64_t whole = geometry_.global[0] / geometry_.local[0];
    if (whole) cut_groups(box, 0, whole - 1, row);
    if (whole < geometry_.groups[0]) cut_groups(box, whole, whole, row);
  }

  void cut_groups(const Box &row, uint64_t from, uint64_t to, Row *result) {
    const uint64_t local = geometry_.local[0];
    const uint64_t size = std::min(local, geometry_.global[0] - from * local);
    std::vector<Stretch> stretches;
    if (cut_group(row, from, to, 0, size - 1, &stretches)) {
      result->push_back({to + 1, std::move(stretches)});
      return;
    }
    if (from == to) throw Unsure();
    const uint64_t middle = from + (to - from) / 2;
    cut_groups(row, from, middle, result);
    cut_groups(row, middle + 1, to, result);
  }

  // False: the groups differ.
  bool cut_group(const Box &row, uint64_t from, uint64_t to, uint64_t first, uint64_t last,
                 std::vector<Stretch> *stretches) {
    Box box = row;
    box.first[0] = from * geometry_.local[0] + first;
    box.last[0] = to * geometry_.local[0] + last;
    box.local[0] = first;
    box.local[1] = last;
    expressions_.evaluate(box);
    std::vector<uint64_t> probes;
    if (expressions_.probes(&probes)) {
      if (!stretches->empty() && stretches->back().probes == probes)
        stretches->back().end = last + 1;
      else
        stretches->push_back({last + 1, std::move(probes)});
      return true;
    }
    if (first == last) return false;
    const uint64_t middle = first + (last - first) / 2;
    return cut_group(row, from, to, first, middle, stretches) &&
           cut_group(row, from, to, middle + 1, last, stretches);
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
    if (cuts_.size() > most_places / patterns_of_kinds_.size()) throw TooCostly();
    if (fresh) patterns_.emplace_back(cuts_.size());
    size_t number = at->second, cut = 0;
    for (uint64_t x = 0; x < geometry_.groups[0]; x++) {
      while (cuts_[cut] <= x) cut++;
      Pattern &pattern = patterns_[number][cut];  // of all groups between two cuts
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

  Pattern make_pattern(const std::vector<uint32_t> &kinds, uint64_t group) {
    Pattern pattern;
    warp_.assign(kernel_.n_probes, 0);
    lanes_ = 0;
    for (uint32_t kind : kinds) {
      const Row &row = rows_[kind];
      auto groups = std::upper_bound(row.begin(), row.end(), group,
                                     [](uint64_t x, const Groups &g) { return x < g.end; });
      uint64_t x = 0;
      for (const Stretch &stretch : groups->stretches) {
        while (x < stretch.end) {
          uint64_t items = std::min(stretch.end - x, geometry_.warp_size() - lanes_);
          for (size_t p = 0; p < warp_.size(); p++) warp_[p] += stretch.probes[p] * items;
          lanes_ += items;
          x += items;
          if (lanes_ == geometry_.warp_size()) close_warp(&pattern);
        }
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
  Expressions expressions_;
  std::map<std::vector<uint64_t>, uint32_t> row_of_key_;
  std::vector<Row> rows_;
  std::vector<uint32_t> kind_;  // per row of the launch
  std::vector<uint64_t> cuts_;  // ends of the groups of all rows
  std::map<std::vector<uint32_t>, size_t> patterns_of_kinds_;
  std::vector<std::vector<Pattern>> patterns_;  // by kinds of rows, then by groups along x
  std::vector<uint64_t> warp_;                  // of the current warp: its probes
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

AnalyticCounts::AnalyticCounts(const InstrumentedKernel &kernel)
    : kernel_(kernel), credit_(most_credit) {}

std::shared_ptr<const WarpClasses> AnalyticCounts::find(const LaunchFacts &facts) {
  std::lock_guard<std::mutex> guard(lock_);
  std::string key = key_of(facts);
  if (auto at = known_.find(key); at != known_.end()) return at->second;
  const size_t credit = credit_ = std::min(most_credit, credit_ + credit_a_launch);
  std::shared_ptr<const WarpClasses> found;
  LaunchCounts counts(kernel_, facts, credit);
  bool again = false;
  try {
    found = std::make_shared<WarpClasses>(counts.find());
  } catch (const Unsure &) {
  } catch (const TooCostly &) {
    again = credit < most_credit;
  }
  credit_ -= counts.evaluations();
  if (again) return nullptr;
  size_t words = key.size() + (found ? found->counts.size() + 2 * found->run_vector.size() : 0);
  if (kept_ + words > most_kept_words) {
    known_.clear();
    kept_ = 0;
  }
  kept_ += words;
  return known_[key] = found;
}

}  // namespace layer
