// SPDX-License-Identifier: Apache-2.0
// The application's own code on devices whose runtime keeps what it compiles. Under a CPU engine it
// is first compiled natively, in another process, into the runtime's cache, where the runtime then
// finds it. A native run tells the profile after it what it has compiled itself.
#ifndef XPUPROF_OPENCL_OWN_BUILDS_HPP
#define XPUPROF_OPENCL_OWN_BUILDS_HPP

#include <optional>

#include "programs/builds.hpp"

namespace layer {

// The program's only device, if a build is for it; `n` and `devices` are clBuildProgram's.
const Device *device_of_build(cl_program handle, cl_uint n, const cl_device_id *devices);

// Asks for the build's own code on the device. Nothing: it is not known how it was made, or the
// runtime keeps nothing.
std::optional<clinst::Request> own_request(const Build &build, const Device &device);

// A call in which the runtime compiles: clBuildProgram, clCompileProgram, or the question for
// binaries, which PoCL makes of all kernels.
enum class Step { build, compile, binaries };

// In a translated process, before the call: has it compiled natively.
void compile_step_beforehand(Program *program, cl_uint n, const cl_device_id *devices, Step step);
// In a native run that a profile follows, once the call has succeeded.
void tell_step(Program *program, cl_uint n, const cl_device_id *devices, Step step);

}  // namespace layer
#endif
