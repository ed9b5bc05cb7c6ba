// SPDX-License-Identifier: Apache-2.0
// The application's kernels and their arguments, which their instrumented variants get, too.
#ifndef XPUPROF_OPENCL_KERNELS_HPP
#define XPUPROF_OPENCL_KERNELS_HPP

#include <memory>

#include "programs/variants.hpp"

namespace layer {

// Knows kernels of unseen origin too.
std::shared_ptr<Kernel> kernel_of(cl_kernel handle);

// Also reached through the extension's own function.
cl_int set_usm_pointer(SetUsmPointer native, cl_kernel kernel, cl_uint index, const void *pointer);

// After fork, in the child: the boundary bus starts a new stream and knows no kernel.
void forget_registrations();

}  // namespace layer
#endif
