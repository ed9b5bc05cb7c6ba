// SPDX-License-Identifier: Apache-2.0
// Programs: what the application gave the driver, kept so that an instrumented shadow can be built
// when one of its kernels is first launched. The application's own objects stay untouched.
#ifndef XPUPROF_OPENCL_PROGRAMS_HPP
#define XPUPROF_OPENCL_PROGRAMS_HPP

#include <memory>

#include "api/objects.hpp"
#include "programs/builds.hpp"

namespace layer {

// The last successful build; NULL: the program is unknown or was never built.
std::shared_ptr<Build> build_of(cl_program program);

// clCreateProgramWithIL, also reached through the extension's own function.
cl_program create_program_with_il(decltype(&clCreateProgramWithIL) native, cl_context context,
                                  const void *il, size_t length, cl_int *error);

}  // namespace layer
#endif
