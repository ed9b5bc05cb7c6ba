// SPDX-License-Identifier: Apache-2.0
// One process per connection, so that a crash inside LLVM costs only one request.
#pragma once

#include <string>

namespace clinst {

// Listens until SIGTERM or the end of the parent process. Returns the exit code.
int serve(const std::string &socket_path);

}  // namespace clinst
