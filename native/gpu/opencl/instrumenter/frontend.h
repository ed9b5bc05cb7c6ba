// SPDX-License-Identifier: Apache-2.0
// Program in any of the three forms -> one LLVM module for spir64, typed pointers.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/messages.hpp"

namespace clinst {

struct Program {
  std::unique_ptr<llvm::Module> module;
  std::vector<std::string> included;  // files of the user that the source includes
};

// Compiles or reads every part and links them. Throws Failure with the compiler's first error.
Program load_program(llvm::LLVMContext &context, const Request &request);

// PoCL alone takes bitcode.
bool is_for_pocl(const Request &request);

// `-DX -DY="a b"` split as the runtime does it, which is not as a shell does: single quotes are
// part of a word, so `-DX='a'` is a character. PoCL makes blanks of double quotes, too, and knows
// no escapes; elsewhere a backslash escapes a double quote, a blank or itself.
std::vector<std::string> split_options(const Request &request, const std::string &options);

// 120 for OpenCL C 1.2: from the last -cl-std of the options, else the runtime's default.
int language_version(const Request &request, const Part &part);

}  // namespace clinst
