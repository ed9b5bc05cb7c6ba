// SPDX-License-Identifier: Apache-2.0
// Compiles with the device's own runtime: the instrumented kernel of a launch, into the runtime's
// cache (CLINST_BUILD), or a program, into a binary (CLINST_BINARY).
#pragma once

#include <string>
#include <vector>

#include "protocol/messages.hpp"

namespace clinst {

// The request for the instrumented program, of one for a kernel or binary of it.
Request program_request(const Request &launch);

// Whether the kernel of the instrumented program counts in any case.
bool surely_counts(const std::string &kernel, const Response &program);

struct Built {
  std::vector<std::string> files;  // that now hold the code; none if that failed
  bool lasting;                    // the same would happen again
};

// Has xpuprof-clbuild compile the kernel, natively.
Built build_natively(const Request &launch, const Response &program);
// The same for the application's own kernel, program or binaries; only for a kernel the
// instrumented program matters.
Built build_own_natively(const Request &launch, const Response &program);

// The program's binary. The response has a reason if that failed.
Response build_binary(const Request &program);
// The same of an instrumented program.
Response build_binary(const Request &request, const Response &program);

}  // namespace clinst
