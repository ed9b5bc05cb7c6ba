// SPDX-License-Identifier: Apache-2.0
// Data transfers: traced with the host's stamps around the call. For a non-blocking call the second
// stamp is its return.
#ifndef XPUPROF_OPENCL_TRANSFERS_HPP
#define XPUPROF_OPENCL_TRANSFERS_HPP

#include "launches/launches.hpp"

namespace layer {

enum Direction : uint32_t { to_device = 0, to_host = 1, within = 2 };

template <class Native>
auto transfer(cl_command_queue queue, Direction direction, uint64_t bytes, bool blocking,
              Native &&native) {
  Api api;
  uint64_t before = xpu_tsc();
  auto result = native();
  uint64_t after = xpu_tsc();
  quietly([&] {
    if (auto entry = queue_of(queue)) xpu_copy(direction, bytes, before, after, entry->index);
    if (blocking) settle();
  });
  return result;
}

}  // namespace layer
#endif
