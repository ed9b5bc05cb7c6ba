// SPDX-License-Identifier: Apache-2.0
// Compiles the instrumented kernel of a launch (CLINST_BUILD) with the device's own runtime, into
// the runtime's cache.
#pragma once

#include <string>
#include <vector>

#include "protocol/messages.hpp"

namespace clinst {

// The request for the program whose kernel a launch runs.
Request program_request(const Request &launch);

// Whether the launch's kernel, of the instrumented program, counts in any case.
bool surely_counts(const Request &launch, const Response &program);

// Has xpuprof-clbuild compile the kernel, natively. The files that now hold it; none if that
// failed.
std::vector<std::string> build_natively(const Request &launch, const Response &program);

}  // namespace clinst
