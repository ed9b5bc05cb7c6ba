// SPDX-License-Identifier: Apache-2.0
// The application's kernels and their arguments, also passed to their instrumented variants.
#ifndef XPUPROF_OPENCL_KERNELS_HPP
#define XPUPROF_OPENCL_KERNELS_HPP

#include <memory>

#include "programs/variants.hpp"

namespace layer {

// Also accepts kernels of unseen origin.
std::shared_ptr<Kernel> kernel_of(cl_kernel handle);

// Also reached through the extension's own function.
cl_int set_usm_pointer(SetUsmPointer native, cl_kernel kernel, cl_uint index, const void *pointer);

// After fork, in the child: the boundary bus starts a new stream without kernels.
void forget_registrations();

}  // namespace layer
#endif
