// SPDX-License-Identifier: Apache-2.0
// Everything that differs between device runtimes, in one place. Decisions go by what a device
// says it can do, not by its name or version.
#ifndef XPUPROF_OPENCL_RUNTIMES_HPP
#define XPUPROF_OPENCL_RUNTIMES_HPP

#include <map>
#include <string>
#include <vector>

#include "api/objects.hpp"

namespace layer {

Device describe_device(cl_device_id handle);

// Tells the boundary bus, once a process, which runtime is at work.
void announce_runtime(cl_context context);
// After fork, in the child: its stream is a new one.
void forget_announcement();

// Work-items of the sub-groups of each kernel of the kernel's program, as the device compiled them;
// none where the sub-groups are not the warps.
std::map<std::string, uint32_t> sub_group_sizes(cl_kernel kernel, const Device &device);

// The module that the instrumenter should make for the device (enum clinst_output).
uint32_t module_kind(const Device &device);

// Builds an instrumented module for one device. Empty reason: `*program` holds it.
std::string build_module(cl_context context, const Device &device, const std::string &module,
                         bool from_source, const std::string &user_options, cl_program *program);

// A counter buffer that the device works on in place, in our memory, or one that starts as a copy
// of it. NULL when there is none to be had.
cl_mem counter_buffer(cl_context context, void *memory, size_t bytes, bool in_place);

}  // namespace layer
#endif
