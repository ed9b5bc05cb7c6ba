// SPDX-License-Identifier: Apache-2.0
// The local sizes that the runtime chose for a kernel's launches without one, as instrumented
// launches reported them.
#ifndef XPUPROF_OPENCL_LOCAL_SIZES_HPP
#define XPUPROF_OPENCL_LOCAL_SIZES_HPP

#include <array>
#include <cstddef>
#include <map>

namespace layer {

using Sizes = std::array<size_t, 3>;

inline Sizes sizes_of(const size_t sizes[3]) { return {sizes[0], sizes[1], sizes[2]}; }

class LocalSizes {
 public:
  // NULL: none is known for this global size.
  const Sizes *find(const Sizes &global) const {
    auto at = sizes_.find(global);
    return at == sizes_.end() ? nullptr : &at->second;
  }
  void remember(const Sizes &global, const Sizes &local) {
    if (sizes_.size() < most) sizes_.emplace(global, local);
  }
  void forget(const Sizes &global) { sizes_.erase(global); }

 private:
  static constexpr size_t most = 4096;  // a program whose sizes never recur gains nothing
  std::map<Sizes, Sizes> sizes_;
};

}  // namespace layer
#endif
