// SPDX-License-Identifier: Apache-2.0
// Instrumented module -> bytes that a runtime accepts.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

namespace clinst {

std::string to_bitcode(llvm::Module &module);
std::string to_spirv(llvm::Module &module);  // throws Failure

}  // namespace clinst
