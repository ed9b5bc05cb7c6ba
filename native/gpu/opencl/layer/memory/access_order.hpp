// SPDX-License-Identifier: Apache-2.0
// The canonical order of a launch's accesses: from the records in the area to the sequence of lines
// for the LRU stack (docs/memory.md).
#ifndef XPUPROF_OPENCL_ACCESS_ORDER_HPP
#define XPUPROF_OPENCL_ACCESS_ORDER_HPP

#include <functional>
#include <vector>

#include "memory/access_area.hpp"

namespace layer {

// One access: its address, bytes, and whether its pointer was generic; or a texel of an image.
struct AccessEntry {
  uint64_t address;
  uint32_t width;
  bool generic, image;
};

class AccessOrder {
 public:
  // `area` as the finished launch left it.
  AccessOrder(const uint64_t *area, const AccessLayout &layout, const Geometry &geometry);

  uint64_t recorded_groups() const { return most_ ? 0 : kept_; }  // complete ones
  uint64_t recorded() const { return recorded_; }                 // accesses

  // The joint accesses of a warp's work-items, lane by lane; steps in canonical order.
  void each_step(const std::function<void(const std::vector<AccessEntry> &)> &visit) const;

 private:
  bool find_chunks();
  bool find_chunk(uint64_t chunk);
  uint64_t accesses(uint64_t kept, uint64_t item) const;
  AccessEntry entry(uint64_t place, uint64_t number) const;
  void each_step_of_group(uint64_t kept,
                          const std::function<void(const std::vector<AccessEntry> &)> &visit) const;

  const uint64_t *area_;
  const AccessLayout &layout_;
  const Geometry &geometry_;
  uint64_t items_ = 0, kept_ = 0, recorded_ = 0;
  uint64_t most_ = 0;             // accesses of a work-item, where no complete group is kept
  unsigned lowest_ = 0;           // level from which on slots are kept
  std::vector<uint32_t> first_;   // by kept work-item: the first of its chunks in chunks_
  std::vector<uint32_t> chunks_;  // numbers of chunks, in the order of their work-items
};

}  // namespace layer
#endif
