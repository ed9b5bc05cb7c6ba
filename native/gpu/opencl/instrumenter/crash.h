// SPDX-License-Identifier: Apache-2.0
// LLVM and the translator abort on some programs; the client still gets a message.
#pragma once

#include <string>

namespace clinst {

// Until `no_crash`, a crash or exit of this process writes `last_words` to the descriptor and ends
// it with `code`. (The translator calls exit on bad input.)
void on_crash(int descriptor, const std::string &last_words, int code);
void no_crash();

// Nor does a crash of this process, or of programs that it starts, leave a file in the user's
// folder.
void leave_no_core();

constexpr const char *kCrashed = "LLVM or the SPIR-V translator gave up on this program";

}  // namespace clinst
