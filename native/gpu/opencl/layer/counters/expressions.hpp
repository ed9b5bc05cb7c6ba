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
struct Unsure {};  // a condition of an expression does not hold in the launch

// The values of a node in a box of work-items: all lie in lo..hi. `unsure`: a condition on which
// one of them depends may not hold.
struct Values {
  uint64_t lo, hi;
  bool unsure = false;
  bool one() const { return lo == hi && !unsure; }
};

// Both ends included. Along x a box may hold the same part of several groups.
struct Box {
  uint64_t first[3], last[3];  // global indices without offset
  uint64_t local[2];           // local indices along x
};

// The expressions of a kernel in one launch, evaluated over boxes of work-items.
class Expressions {
 public:
  // `most`: evaluations of a node.
  Expressions(const InstrumentedKernel &kernel, const LaunchFacts &facts, size_t most);

  void evaluate(const Box &box);  // throws TooCostly
  size_t evaluations() const { return evaluations_; }
  // The values shared by a row's work-items on which their counts depend; false if they differ
  // between the rows of the box.
  bool of_row(std::vector<uint64_t> *key) const;
  // The probes of a work-item; false if they differ within the box.
  bool probes(std::vector<uint64_t> *row) const;

 private:
  bool hangs_on_x(const clinst::Node &node) const;
  Values query(const clinst::Node &node, const Box &box) const;
  Values value(const clinst::Node &node, const Box &box) const;
  Values computed(const clinst::Node &node) const;

  const InstrumentedKernel &kernel_;
  const LaunchFacts &facts_;
  std::vector<Values> values_;
  std::vector<bool> along_x_;
  std::vector<uint32_t> of_row_;
  size_t most_, evaluations_ = 0;
};

}  // namespace layer
#endif
