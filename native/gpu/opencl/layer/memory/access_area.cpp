// SPDX-License-Identifier: Apache-2.0
#include "memory/access_area.hpp"

#include <algorithm>

namespace layer {

namespace {

uint64_t divided(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }

// Slots, states and where the parts begin, when every `step`-th group is recorded.
AccessLayout with_step(const Geometry &geometry, bool local_known, uint64_t most_items,
                       uint64_t pointers, uint64_t step) {
  AccessLayout layout;
  layout.step = step;
  uint64_t items = local_known ? geometry.items_a_group() : most_items;
  uint64_t total = geometry.global[0] * geometry.global[1] * geometry.global[2];
  uint64_t groups = local_known ? geometry.n_groups() : total;
  layout.slots = divided(groups, step);
  layout.items = items;
  // If unknown, the groups' sizes add up to the launch's, rounded up in each dimension.
  layout.states = local_known ? layout.slots * items : divided(2 * total, step) + items;
  layout.levels_at = CLINST_ACCESS_BASES + pointers;
  layout.states_at = layout.levels_at + layout.slots;
  layout.chunks_at = layout.states_at + layout.states;
  return layout;
}

}  // namespace

AccessLayout AccessLayout::of(const Geometry &geometry, bool local_known, uint64_t most_items,
                              uint64_t pointers, uint64_t room) {
  constexpr uint64_t share_of_chunks = 4;  // everything else may take a quarter of the room
  constexpr uint64_t share_of_reserved = 4;
  constexpr uint64_t widest_step = uint64_t{1} << 62;
  uint64_t step = 1;
  AccessLayout layout = with_step(geometry, local_known, most_items, pointers, step);
  while (layout.chunks_at > room / share_of_chunks && step < widest_step)
    layout = with_step(geometry, local_known, most_items, pointers, step *= 2);
  while (layout.levels < CLINST_MOST_LEVELS && layout.slots >> layout.levels) layout.levels++;
  uint64_t chunks = room > layout.chunks_at ? (room - layout.chunks_at) / CLINST_CHUNK_WORDS : 0;
  layout.reserved = chunks / share_of_reserved / layout.items;
  chunks -= layout.reserved * layout.items;
  layout.level_chunks = chunks / layout.levels;
  layout.words =
      layout.chunks_at +
      (layout.levels * layout.level_chunks + layout.reserved * layout.items) * CLINST_CHUNK_WORDS;
  return layout;
}

uint64_t AccessLayout::level_of(uint64_t slot) const {
  uint64_t last = levels - 1;
  return slot ? std::min<uint64_t>(last, __builtin_ctzll(slot)) : last;
}

uint64_t AccessLayout::taken(const uint64_t *area, uint64_t level) const {
  return static_cast<uint32_t>(area[CLINST_ACCESS_TAKEN + level]);
}

uint64_t AccessLayout::lowest_kept(const uint64_t *area) const {
  uint64_t lowest = levels;
  while (lowest && taken(area, lowest - 1) <= level_chunks) lowest--;
  return lowest;
}

void AccessLayout::prepare(uint64_t *area) const {
  std::fill_n(area, static_cast<size_t>(CLINST_ACCESS_BASES), 0);
  area[CLINST_ACCESS_STEP] = step;
  area[CLINST_ACCESS_CHUNKS] = level_chunks;
  area[CLINST_ACCESS_LEVELS_AT] = levels_at;
  area[CLINST_ACCESS_STATES_AT] = states_at;
  area[CLINST_ACCESS_CHUNKS_AT] = chunks_at;
  area[CLINST_ACCESS_RESERVED] = reserved;
  area[CLINST_ACCESS_RESERVED_AT] = reserved_at();
  area[CLINST_ACCESS_RESERVED_ITEMS] = items;
  for (uint64_t slot = 0; slot < slots; slot++) area[levels_at + slot] = level_of(slot);
  std::fill_n(area + states_at, states, 0);
}

}  // namespace layer
