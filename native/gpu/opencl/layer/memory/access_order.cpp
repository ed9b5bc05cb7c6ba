// SPDX-License-Identifier: Apache-2.0
#include "memory/access_order.hpp"

#include <algorithm>

#include "protocol/clinst_protocol.h"

namespace layer {

constexpr uint32_t no_chunk = CLINST_NO_CHUNK;

static uint64_t chunks_for(uint64_t accesses) {
  return (accesses + CLINST_CHUNK_ENTRIES - 1) / CLINST_CHUNK_ENTRIES;
}

AccessOrder::AccessOrder(const uint64_t *area, const AccessLayout &layout, const Geometry &geometry)
    : area_(area), layout_(layout), geometry_(geometry), items_(geometry.items_a_group()) {
  uint64_t slots = (geometry.n_groups() + layout.step - 1) / layout.step;
  if (slots > layout.slots || slots * items_ > layout.states) return;
  lowest_ = static_cast<unsigned>(layout.lowest_kept(area));
  if (lowest_ == layout.levels) {  // even the last level overflowed: the first group's beginning
    most_ = layout.reserved * CLINST_CHUNK_ENTRIES;
    kept_ = most_ ? 1 : 0;
  } else {
    kept_ = ((slots - 1) >> lowest_) + 1;
  }
  if (find_chunks()) return;
  kept_ = recorded_ = 0;  // the program overwrote our area
}

uint64_t AccessOrder::accesses(uint64_t kept, uint64_t item) const {
  uint64_t made =
      static_cast<uint32_t>(area_[layout_.states_at + (kept << lowest_) * items_ + item]);
  return most_ ? std::min(made, most_) : made;
}

// Chunks were taken in the order in which work-items happened to run; their tags identify the
// owner. False when they are inconsistent.
bool AccessOrder::find_chunks() {
  first_.assign(kept_ * items_ + 1, 0);
  uint64_t total = 0;
  for (uint64_t i = 0; i < kept_ * items_; i++) {
    uint64_t n = accesses(i / items_, i % items_);
    recorded_ += n;
    first_[i] = static_cast<uint32_t>(total);
    total += chunks_for(n);
    if (total > layout_.reserved_at() + layout_.reserved * layout_.items) return false;
  }
  first_.back() = static_cast<uint32_t>(total);
  chunks_.assign(total, no_chunk);
  for (uint64_t level = lowest_; level < layout_.levels; level++)
    for (uint64_t c = 0; c < layout_.taken(area_, level); c++)
      if (!find_chunk(level * layout_.level_chunks + c)) return false;
  for (uint64_t item = 0; kept_ && item < items_; item++) {
    uint64_t own = std::min(chunks_for(accesses(0, item)), layout_.reserved);
    for (uint64_t c = 0; c < own; c++)
      if (!find_chunk(layout_.reserved_at() + c * layout_.items + item)) return false;
  }
  return std::find(chunks_.begin(), chunks_.end(), no_chunk) == chunks_.end();
}

bool AccessOrder::find_chunk(uint64_t chunk) {
  uint64_t tag = area_[layout_.chunks_at + chunk * CLINST_CHUNK_WORDS];
  uint64_t slot = static_cast<uint32_t>(tag) / items_, item = static_cast<uint32_t>(tag) % items_;
  uint64_t kept = slot >> lowest_;
  if (kept >= kept_ || kept << lowest_ != slot) return false;
  uint64_t place = first_[kept * items_ + item] + (tag >> 32);
  if (place >= first_[kept * items_ + item + 1]) return false;
  chunks_[place] = static_cast<uint32_t>(chunk);
  return true;
}

AccessEntry AccessOrder::entry(uint64_t place, uint64_t number) const {
  uint64_t chunk = chunks_[first_[place] + number / CLINST_CHUNK_ENTRIES];
  uint64_t word =
      area_[layout_.chunks_at + chunk * CLINST_CHUNK_WORDS + 1 + number % CLINST_CHUNK_ENTRIES];
  return {word >> CLINST_ENTRY_BITS, static_cast<uint32_t>(word & CLINST_ENTRY_WIDEST),
          (word & CLINST_ENTRY_GENERIC) != 0, (word & CLINST_ENTRY_IMAGE) != 0};
}

void AccessOrder::each_step(
    const std::function<void(const std::vector<AccessEntry> &)> &visit) const {
  for (uint64_t kept = 0; kept < kept_; kept++) each_step_of_group(kept, visit);
}

void AccessOrder::each_step_of_group(
    uint64_t kept, const std::function<void(const std::vector<AccessEntry> &)> &visit) const {
  struct Warp {
    uint64_t begin, end, most;  // work-items; accesses of the busiest
  };
  std::vector<Warp> warps;
  const uint64_t row = geometry_.items_a_row(), size = geometry_.warp_size();
  for (uint64_t begin = 0; begin < items_; begin = warps.back().end) {
    Warp warp{begin, std::min(begin + size, (begin / row + 1) * row), 0};
    for (uint64_t item = begin; item < warp.end; item++)
      warp.most = std::max(warp.most, accesses(kept, item));
    warps.push_back(warp);
  }
  std::vector<AccessEntry> step;
  for (uint64_t number = 0; !warps.empty(); number++) {
    warps.erase(std::remove_if(warps.begin(), warps.end(),
                               [&](const Warp &warp) { return warp.most <= number; }),
                warps.end());
    for (const Warp &warp : warps) {
      step.clear();
      for (uint64_t item = warp.begin; item < warp.end; item++)
        if (number < accesses(kept, item)) step.push_back(entry(kept * items_ + item, number));
      visit(step);
    }
  }
}

}  // namespace layer
