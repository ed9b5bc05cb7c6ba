// SPDX-License-Identifier: Apache-2.0
// From raw probe counters to warp classes.
#ifndef XPUPROF_OPENCL_WARPS_HPP
#define XPUPROF_OPENCL_WARPS_HPP

#include <cstdint>
#include <vector>

#include "client/client.hpp"

namespace layer {

// The partition of a launch's work-items into groups and warps. `local` is the full group's size;
// groups at the upper edges may be smaller (OpenCL 2.0's non-uniform groups).
struct Geometry {
  uint64_t global[3], local[3], groups[3];
  uint32_t sub_group = 0;  // its size where sub-groups, cut from rows, are the warps

  static Geometry of(const uint64_t global[3], const uint64_t local[3], uint32_t sub_group);
  uint64_t items_a_group() const { return local[0] * local[1] * local[2]; }
  uint32_t warp_size() const;
  uint64_t items_a_row() const;  // cut into warps from the front: a full group's or its row's
  uint64_t warps_a_group() const;
  uint64_t n_groups() const { return groups[0] * groups[1] * groups[2]; }
  bool operator==(const Geometry &other) const;
};

// A launch's warps, each distinct vector once.
struct WarpClasses {
  std::vector<uint64_t> counts;  // vectors x blocks
  std::vector<uint32_t> run_vector;
  std::vector<uint64_t> run_length;
  uint32_t n_vectors = 0;
};

// The block counts of a new vector, from a warp's probes and number of work-items.
void append_counts(const InstrumentedKernel &kernel, const uint64_t *probes, uint32_t lanes,
                   WarpClasses *classes);

// `probes` holds n_probes counters per warp; warps in the order of clinst_protocol.h.
class WarpClassifier {
 public:
  const WarpClasses &classify(const InstrumentedKernel &kernel, const Geometry &geometry,
                              const uint64_t *probes);

 private:
  struct Slot {
    const uint64_t *row;
    uint32_t lanes, vector, epoch;
  };
  void start(const InstrumentedKernel &kernel);
  void add_group(const Geometry &geometry, const uint64_t items[3], const uint64_t *probes);
  void add_warp(const uint64_t *row, uint32_t lanes);
  uint32_t vector_of(const uint64_t *row, uint32_t lanes);
  uint32_t new_vector(const uint64_t *row, uint32_t lanes);
  void grow();
  size_t slot_for(const uint64_t *row, uint32_t lanes) const;

  const InstrumentedKernel *kernel_ = nullptr;
  size_t n_probes_ = 0;
  WarpClasses classes_;
  std::vector<Slot> slots_;
  uint32_t epoch_ = 0;
  const uint64_t *last_row_ = nullptr;
  uint32_t last_lanes_ = 0;
};

}  // namespace layer
#endif
