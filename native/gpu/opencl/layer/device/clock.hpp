// SPDX-License-Identifier: Apache-2.0
// Device time stamps in ticks of the TSC.
#ifndef XPUPROF_OPENCL_CLOCK_HPP
#define XPUPROF_OPENCL_CLOCK_HPP

#include "api/objects.hpp"

namespace layer {

class DeviceClock {
 public:
  // Renews an old correlation, so that it is near the stamps converted next.
  void refresh(const Queue &queue);
  // Converts a stamp of clGetEventProfilingInfo; 0 when the clocks cannot be correlated.
  uint64_t ticks(cl_ulong device_ns) const;
  // Half the width of the widest bracket around a correlation, in ticks.
  uint64_t error_ticks() const { return error_; }

  // A moment on both clocks; `width` (0: none) is the distance of the stamps around it.
  struct Anchor {
    uint64_t tsc = 0, width = 0;
    cl_ulong device = 0;
  };

 private:
  Anchor sample(const Queue &queue) const;
  Anchor sample_timer(cl_device_id device) const;

  Anchor first_, last_;
  double rate_ = 0;  // ticks per device nanosecond
  uint64_t error_ = 0, tried_ = 0;
};

}  // namespace layer
#endif
