// SPDX-License-Identifier: Apache-2.0
// The layout of the area in which a launch's work-items record their accesses (access_area.h).
#ifndef XPUPROF_OPENCL_ACCESS_AREA_HPP
#define XPUPROF_OPENCL_ACCESS_AREA_HPP

#include <cstdint>

#include "counters/warps.hpp"
#include "protocol/access_area.h"

namespace layer {

// Levels make any amount of room sufficient. Level l holds the slots divisible by 2^l but not by
// 2^(l+1), the last level the rest, so each has half the work-groups of the previous one, evenly
// spaced, and all have the same room. The levels above the last one that overflowed are kept: all
// groups, or every second, or every fourth ...
struct AccessLayout {
  uint64_t step = 1, levels = 1, level_chunks = 0;
  uint64_t slots = 0, states = 0;  // upper bound: the local size may not be known yet
  uint64_t items = 0;              // of a group, upper bound
  uint64_t reserved = 0;           // chunks for each work-item of the first group
  uint64_t levels_at = 0, states_at = 0, chunks_at = 0, words = 0;

  // For a launch of `geometry` on at most `room` words; for an unknown local size only the upper
  // bound `most_items` is given. Never fails: with too little room nothing is kept.
  static AccessLayout of(const Geometry &geometry, bool local_known, uint64_t most_items,
                         uint64_t pointers, uint64_t room);

  uint64_t level_of(uint64_t slot) const;
  void prepare(uint64_t *area) const;  // before the launch: everything before the chunks
  // For a finished launch: chunks taken from a level, more than it has if it overflowed; and the
  // first level from which on none overflowed.
  uint64_t taken(const uint64_t *area, uint64_t level) const;
  uint64_t lowest_kept(const uint64_t *area) const;
  uint64_t reserved_at() const { return levels * level_chunks; }  // number of the first such chunk
};

}  // namespace layer
#endif
