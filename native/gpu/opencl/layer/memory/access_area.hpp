// SPDX-License-Identifier: Apache-2.0
// The area in which a launch's work-items leave their accesses (access_area.h): how it is laid out.
#ifndef XPUPROF_OPENCL_ACCESS_AREA_HPP
#define XPUPROF_OPENCL_ACCESS_AREA_HPP

#include <cstdint>

#include "counters/warps.hpp"
#include "protocol/access_area.h"

namespace layer {

// Levels make the room that a launch needs of no consequence. Level l holds the slots that 2^l
// divides and 2^(l+1) does not, the last level the rest, so each has half the work-groups of the
// one before, evenly spaced, and all have the same room. What is kept are the levels above the last
// one that ran over: all groups, or every second, or every fourth ...
struct AccessLayout {
  uint64_t step = 1, levels = 1, level_chunks = 0;
  uint64_t slots = 0, states = 0;  // at most: the local size may not be known yet
  uint64_t items = 0;              // of a group, at most
  uint64_t reserved = 0;           // chunks for each work-item of the first group
  uint64_t levels_at = 0, states_at = 0, chunks_at = 0, words = 0;

  // For a launch of `geometry` on at most `room` words; of an unknown local size only an upper
  // bound, `most_items`, is known. Never fails: with too little room nothing is kept.
  static AccessLayout of(const Geometry &geometry, bool local_known, uint64_t most_items,
                         uint64_t pointers, uint64_t room);

  uint64_t level_of(uint64_t slot) const;
  void prepare(uint64_t *area) const;  // before the launch: all that stands before the chunks
  // Of a finished launch: chunks that were taken of a level, more than there are where it ran over;
  // and the level from which on all had room.
  uint64_t taken(const uint64_t *area, uint64_t level) const;
  uint64_t lowest_kept(const uint64_t *area) const;
  uint64_t reserved_at() const { return levels * level_chunks; }  // number of the first such chunk
};

}  // namespace layer
#endif
