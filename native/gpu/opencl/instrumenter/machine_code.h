// SPDX-License-Identifier: Apache-2.0
// The machine code in a program's binary.
#pragma once

#include <string>

namespace clinst {

// Whether all that the code calls outside itself are mathematical and memory functions, so that it
// makes no system call. Known for binaries of Intel's CPU runtime; of others, false.
bool computes_only(const std::string &binary);

}  // namespace clinst
