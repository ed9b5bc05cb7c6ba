// SPDX-License-Identifier: Apache-2.0
// One process a connection, so that a crash inside LLVM costs one request only.
#pragma once

#include <string>

namespace clinst {

// Listens until SIGTERM or until the parent process is gone. Returns the exit code.
int serve(const std::string &socket_path);

}  // namespace clinst
