// SPDX-License-Identifier: Apache-2.0
// Everything that differs between device runtimes, in one place. Decisions depend on what a device
// reports, not on its name or version, except for what Intel's and PoCL's do not report.
#ifndef XPUPROF_OPENCL_RUNTIMES_HPP
#define XPUPROF_OPENCL_RUNTIMES_HPP

#include <map>
#include <string>
#include <vector>

#include "api/objects.hpp"

namespace layer {

// "OpenCL 3.0 ..." or "OpenCL C 1.2 ..." -> 300, 120
unsigned version_number(const std::string &text);

Device describe_device(cl_device_id handle);

// Tells the boundary bus, once per process, which runtime is in use.
void announce_runtime(cl_context context);
// After fork, in the child, which has a new stream.
void forget_announcement();

// The sub-group size of each kernel of the kernel's program, as the device compiled it; empty where
// sub-groups are not the warps.
std::map<std::string, uint32_t> sub_group_sizes(cl_kernel kernel, const Device &device);

// The module that the instrumenter should make for the device (enum clinst_output).
uint32_t module_kind(const Device &device);

// Build options of an instrumented module: those of the user's that act behind the front end.
std::string module_options(const Device &device, bool from_source, const std::string &user_options);

// Builds an instrumented module for one device, with such options. Empty reason: `*program` holds
// it.
std::string build_module(cl_context context, const Device &device, const std::string &module,
                         const std::string &options, cl_program *program);
// The same for a binary of the device's own.
std::string build_binary(cl_context context, const Device &device, const std::string &binary,
                         const std::string &options, cl_program *program);

// A counter buffer that the device uses in place, in our memory, or one initialised from it. NULL
// when none is available.
cl_mem counter_buffer(cl_context context, void *memory, size_t bytes, bool in_place);

}  // namespace layer
#endif
