// SPDX-License-Identifier: Apache-2.0
// Asks the instrumenter.
#ifndef XPUPROF_OPENCL_CLIENT_HPP
#define XPUPROF_OPENCL_CLIENT_HPP

#include "protocol/messages.hpp"

namespace layer {

using clinst::Part;
using InstrumentedKernel = clinst::Kernel;
using Instrumented = clinst::Response;

// Never throws Failure: it becomes the reason why there is no instrumented program.
Instrumented instrument(const clinst::Request &request);

// Has a kernel compiled natively (CLINST_BUILD), if that works and the instrumenter is this user's.
void build_natively(const clinst::Request &request);

}  // namespace layer
#endif
