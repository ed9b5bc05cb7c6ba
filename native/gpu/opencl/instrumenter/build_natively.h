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

struct Built {
  std::vector<std::string> files;  // that now hold the kernel; none if that failed
  bool lasting;                    // the same would happen again
};

// Has xpuprof-clbuild compile the kernel, natively.
Built build_natively(const Request &launch, const Response &program);

}  // namespace clinst
