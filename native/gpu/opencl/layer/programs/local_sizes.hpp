// SPDX-License-Identifier: Apache-2.0
// The local sizes that the runtime chose for a kernel's launches without one, as instrumented
// launches reported them.
#ifndef XPUPROF_OPENCL_LOCAL_SIZES_HPP
#define XPUPROF_OPENCL_LOCAL_SIZES_HPP

#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace layer {

using Sizes = std::array<size_t, 3>;

// All that a choice may depend on: dimensions, global sizes, offsets, sizes of local arguments.
using LaunchShape = std::vector<size_t>;

class LocalSizes {
 public:
  // NULL: none is known for this shape.
  const Sizes *find(const LaunchShape &shape) const {
    auto at = sizes_.find(shape);
    return at == sizes_.end() ? nullptr : &at->second;
  }
  void remember(const LaunchShape &shape, const Sizes &local) {
    if (sizes_.size() < most) sizes_.emplace(shape, local);
  }
  void forget(const LaunchShape &shape) { sizes_.erase(shape); }

 private:
  static constexpr size_t most = 4096;  // a program whose sizes never recur gains nothing
  std::map<LaunchShape, Sizes> sizes_;
};

}  // namespace layer
#endif
