// Counts of launches that follow from the launch itself: work-item ids, sizes and integer arguments
// (the nodes of clinst_protocol.h). Such a launch runs the program's own kernel.
#ifndef XPUPROF_OPENCL_HOST_COUNTS_HPP
#define XPUPROF_OPENCL_HOST_COUNTS_HPP

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "counters/warps.hpp"

namespace layer {

// What the counts of a launch hang on. `arguments`: one value a node that is an argument.
struct LaunchFacts {
  Geometry geometry;
  uint64_t offset[3] = {0, 0, 0};
  std::vector<uint64_t> arguments;
};

// Of one kernel. Remembers what it found: equal launches have equal counts.
class HostCounts {
 public:
  explicit HostCounts(const InstrumentedKernel &kernel) : kernel_(kernel) {}
  // NULL when finding them would cost more than counting in the kernel.
  std::shared_ptr<const WarpClasses> find(const LaunchFacts &facts);

 private:
  const InstrumentedKernel &kernel_;
  std::mutex lock_;
  std::unordered_map<std::string, std::shared_ptr<const WarpClasses>> known_;
  size_t kept_ = 0;  // words in known_
  unsigned refused_ = 0;
};

}  // namespace layer
#endif
