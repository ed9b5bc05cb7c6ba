// SPDX-License-Identifier: Apache-2.0
// Programs that the device's runtime compiles in a process of the instrumenter's, natively, and
// that this process makes from the binary (CLINST_BINARY): for devices whose binaries hold machine
// code. A compiler under a CPU engine takes ten to forty times as long, and the instrumenter keeps
// the binaries.
#ifndef XPUPROF_OPENCL_BINARIES_HPP
#define XPUPROF_OPENCL_BINARIES_HPP

#include <string>

#include "api/objects.hpp"
#include "client/client.hpp"

namespace layer {

// Adds what decides how the runtime compiles for the device, and where it keeps the result.
void add_facts(const Device &device, const std::string &options, clinst::Request *request);

// The request for the binary of the program of `request`, built with these options.
clinst::Request binary_request(const Device &device, clinst::Request request,
                               const std::string &options);

// The program of this binary. NULL: it has to be compiled here.
cl_program program_from_binary(cl_context context, const Device &device, clinst::Request request,
                               const std::string &options, std::string *log = nullptr);

// Whether the binary, for the device, holds machine code that calls mathematical and memory
// functions only.
bool binary_computes_only(const Device &device, const std::string &binary);

}  // namespace layer
#endif
