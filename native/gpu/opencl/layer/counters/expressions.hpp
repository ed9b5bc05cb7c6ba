// SPDX-License-Identifier: Apache-2.0
// The nodes of clinst_protocol.h: a work-item's counters as expressions over the launch.
#ifndef XPUPROF_OPENCL_EXPRESSIONS_HPP
#define XPUPROF_OPENCL_EXPRESSIONS_HPP

#include <cstdint>
#include <vector>

#include "counters/warps.hpp"

namespace layer {

// The inputs of a launch's counts. `arguments`: the values of those that nodes use, else 0.
struct LaunchFacts {
  Geometry geometry;
  uint64_t offset[3] = {0, 0, 0};
  std::vector<uint64_t> arguments;
};

struct TooCostly {};

// The values of a node in a box of work-items: all lie in lo..hi.
struct Values {
  uint64_t lo, hi;
  bool one() const { return lo == hi; }
};

struct Box {
  uint64_t first[3], last[3];  // global indices without offset, both ends included
};

// The expressions of a kernel in one launch, evaluated over boxes of work-items.
class Expressions {
 public:
  Expressions(const InstrumentedKernel &kernel, const LaunchFacts &facts);

  // Throws TooCostly after a few thousand evaluations.
  void evaluate(const Box &box);
  // The values shared by a row's work-items on which their counts depend; false if they differ
  // between the rows of the box.
  bool of_row(std::vector<uint64_t> *key) const;
  // The probes of a work-item; false if they differ within the box.
  bool probes(std::vector<uint64_t> *row) const;

 private:
  bool hangs_on_x(const clinst::Node &node) const;
  Values query(const clinst::Node &node, const Box &box) const;
  Values value(const clinst::Node &node, const Box &box) const;

  const InstrumentedKernel &kernel_;
  const LaunchFacts &facts_;
  std::vector<Values> values_;
  std::vector<bool> along_x_;
  std::vector<uint32_t> of_row_;
  size_t steps_ = 0;
};

}  // namespace layer
#endif
