// SPDX-License-Identifier: Apache-2.0
// Under a CPU engine the device runtime's compiler is translated like the rest of the process, and
// takes many times as long. So a kernel is first compiled natively, in another process, into the
// runtime's cache, where the runtime then finds it (own_builds.hpp: its program, too). The native
// run before a profile leaves requests for this, and for binaries (binaries.hpp). The callers hold
// `order`.
#ifndef XPUPROF_OPENCL_COMPILE_BEFOREHAND_HPP
#define XPUPROF_OPENCL_COMPILE_BEFOREHAND_HPP

#include "launches/plan.hpp"

namespace layer {

// For a launch of the kernel that is about to be instrumented. Once for each shape of launches.
void compile_beforehand(Kernel *kernel, const Device &device, const Range &range,
                        uint32_t local_words);

// The same before the kernel's first launch on the device makes its shadow, which is at once unless
// its counts follow from sizes and arguments.
void compile_before_first(Kernel *kernel, const Device &device, const Range &range);

// For a launch of the application's own kernel. Once for each shape of launches.
void compile_own_beforehand(const Kernel &kernel, const Device &device, const Range &range);

// In a native run that a profile follows: leaves what the launch would have compiled then, if the
// kernel counts, so that it can be compiled while the profile starts; and tells that the own kernel
// has been compiled. Once for each shape, or for the kernel where the device loads binaries.
void leave_launch(const Kernel &kernel, const Device &device, const Range &range);

}  // namespace layer
#endif
