// SPDX-License-Identifier: Apache-2.0
// One process per connection, so that a crash inside LLVM costs only one request.
#pragma once

#include <string>

namespace clinst {

// Listens until SIGTERM or the end of the parent process. Returns the exit code. `ahead`: a folder
// of requests that are answered without being asked; empty: none.
int serve(const std::string &socket_path, const std::string &ahead);

}  // namespace clinst
