// SPDX-License-Identifier: Apache-2.0
// What a native run leaves for the profile after it: requests that the profile will make, one a
// file. They are answered while its program starts (instrumenter/ahead.cpp).
#ifndef XPUPROF_OPENCL_AHEAD_HPP
#define XPUPROF_OPENCL_AHEAD_HPP

#include <string>

#include "protocol/messages.hpp"

namespace layer {

// The name of the request's file; empty: there is none.
std::string leave_for_profile(const clinst::Request &request);

// What the process has compiled itself, of requests for the application's own code.
void tell_compiled(const clinst::Request &request);

// Around fork, so that the child finds it complete.
void hold_left();
void release_left();

}  // namespace layer
#endif
