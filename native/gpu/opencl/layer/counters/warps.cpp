// SPDX-License-Identifier: Apache-2.0
#include "counters/warps.hpp"

#include <algorithm>
#include <cstring>

#include "protocol/clinst_protocol.h"

namespace layer {

Geometry Geometry::of(const uint64_t global[3], const uint64_t local[3], uint32_t sub_group) {
  Geometry geometry;
  geometry.sub_group = sub_group;
  for (int d = 0; d < 3; d++) {
    geometry.global[d] = global[d];
    geometry.local[d] = local[d];
    geometry.groups[d] = (global[d] + local[d] - 1) / local[d];
  }
  return geometry;
}

uint32_t Geometry::warp_size() const { return sub_group ? sub_group : CLINST_WARP; }

// Work-items cut into warps from the front: a row's, or the whole group's.
static uint64_t items_a_row(const Geometry &geometry, const uint64_t items[3]) {
  return geometry.sub_group ? items[0] : items[0] * items[1] * items[2];
}

static uint64_t rows(const Geometry &geometry, const uint64_t items[3]) {
  return geometry.sub_group ? items[1] * items[2] : 1;
}

static uint64_t warps_of(const Geometry &geometry, const uint64_t items[3]) {
  uint64_t size = geometry.warp_size();
  return (items_a_row(geometry, items) + size - 1) / size * rows(geometry, items);
}

uint64_t Geometry::items_a_row() const { return layer::items_a_row(*this, local); }

uint64_t Geometry::warps_a_group() const { return warps_of(*this, local); }

bool Geometry::operator==(const Geometry &other) const {
  return std::equal(global, global + 3, other.global) &&
         std::equal(local, local + 3, other.local) && sub_group == other.sub_group;
}

void append_counts(const InstrumentedKernel &kernel, const uint64_t *probes, uint32_t lanes,
                   WarpClasses *classes) {
  for (const auto &terms : kernel.derivation) {
    uint64_t count = 0;
    for (const auto &term : terms)
      count += static_cast<uint64_t>(static_cast<int64_t>(term.factor)) *
               (term.probe < 0 ? lanes : probes[term.probe]);
    classes->counts.push_back(count);
  }
  classes->n_vectors++;
}

static uint64_t hash_row(const uint64_t *row, size_t n, uint32_t lanes) {
  uint64_t hash = lanes * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < n; i++) {
    hash = (hash ^ row[i]) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

static bool equal_rows(const uint64_t *a, const uint64_t *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i] != b[i]) return false;
  return true;
}

void WarpClassifier::start(const InstrumentedKernel &kernel) {
  kernel_ = &kernel;
  n_probes_ = kernel.n_probes;
  classes_.counts.clear();
  classes_.run_vector.clear();
  classes_.run_length.clear();
  classes_.n_vectors = 0;
  last_row_ = nullptr;
  last_lanes_ = 0;
  if (slots_.empty()) slots_.assign(64, Slot{});
  if (++epoch_ == 0) { /* wrapped around: old slots would look new */
    std::fill(slots_.begin(), slots_.end(), Slot{});
    epoch_ = 1;
  }
}

size_t WarpClassifier::slot_for(const uint64_t *row, uint32_t lanes) const {
  size_t mask = slots_.size() - 1, at = hash_row(row, n_probes_, lanes) & mask;
  while (slots_[at].epoch == epoch_ &&
         (slots_[at].lanes != lanes || !equal_rows(slots_[at].row, row, n_probes_)))
    at = (at + 1) & mask;
  return at;
}

void WarpClassifier::grow() {
  std::vector<Slot> old(2 * slots_.size(), Slot{});
  old.swap(slots_);
  for (const Slot &slot : old)
    if (slot.epoch == epoch_) slots_[slot_for(slot.row, slot.lanes)] = slot;
}

uint32_t WarpClassifier::new_vector(const uint64_t *row, uint32_t lanes) {
  append_counts(*kernel_, row, lanes, &classes_);
  return classes_.n_vectors - 1;
}

uint32_t WarpClassifier::vector_of(const uint64_t *row, uint32_t lanes) {
  size_t at = slot_for(row, lanes);
  if (slots_[at].epoch != epoch_) {
    if (2 * (classes_.n_vectors + 1) > slots_.size()) {
      grow();
      at = slot_for(row, lanes);
    }
    slots_[at] = {row, lanes, new_vector(row, lanes), epoch_};
  }
  return slots_[at].vector;
}

// Neighbours are usually equal, so only a warp that differs from its predecessor is looked up.
void WarpClassifier::add_warp(const uint64_t *row, uint32_t lanes) {
  if (last_row_ && lanes == last_lanes_ && equal_rows(row, last_row_, n_probes_)) {
    classes_.run_length.back()++;
    return;
  }
  last_row_ = row;
  last_lanes_ = lanes;
  classes_.run_vector.push_back(vector_of(row, lanes));
  classes_.run_length.push_back(1);
}

// A smaller group has fewer warps than room.
void WarpClassifier::add_group(const Geometry &geometry, const uint64_t items[3],
                               const uint64_t *probes) {
  const uint64_t size = geometry.warp_size(), row = items_a_row(geometry, items);
  for (uint64_t n = rows(geometry, items); n; n--)
    for (uint64_t first = 0; first < row; first += size, probes += n_probes_)
      add_warp(probes, static_cast<uint32_t>(std::min(size, row - first)));
}

const WarpClasses &WarpClassifier::classify(const InstrumentedKernel &kernel,
                                            const Geometry &geometry, const uint64_t *probes) {
  static const uint64_t none = 0;
  if (!probes) probes = &none;
  start(kernel);
  uint64_t room = geometry.warps_a_group() * n_probes_, group[3];
  for (group[2] = 0; group[2] < geometry.groups[2]; group[2]++)
    for (group[1] = 0; group[1] < geometry.groups[1]; group[1]++)
      for (group[0] = 0; group[0] < geometry.groups[0]; group[0]++, probes += room) {
        uint64_t items[3];
        for (int d = 0; d < 3; d++)
          items[d] = std::min(geometry.local[d], geometry.global[d] - group[d] * geometry.local[d]);
        add_group(geometry, items, probes);
      }
  return classes_;
}

}  // namespace layer
