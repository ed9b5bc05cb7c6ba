// SPDX-License-Identifier: Apache-2.0
// Analytic counts: they follow from the launch's work-item ids, sizes and integer arguments (the
// nodes of clinst_protocol.h). Such a launch runs the program's own kernel.
#ifndef XPUPROF_OPENCL_ANALYTIC_COUNTS_HPP
#define XPUPROF_OPENCL_ANALYTIC_COUNTS_HPP

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "counters/expressions.hpp"

namespace layer {

// The analytic counts of one kernel, cached: equal launches have equal counts.
class AnalyticCounts {
 public:
  explicit AnalyticCounts(const InstrumentedKernel &kernel);
  // NULL when evaluating them would cost more than counting in the kernel.
  std::shared_ptr<const WarpClasses> find(const LaunchFacts &facts);

 private:
  const InstrumentedKernel &kernel_;
  std::mutex lock_;
  std::unordered_map<std::string, std::shared_ptr<const WarpClasses>> known_;
  size_t kept_ = 0;  // words in known_
  size_t credit_;    // evaluations that a new launch may take
};

}  // namespace layer
#endif
