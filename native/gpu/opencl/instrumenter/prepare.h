// SPDX-License-Identifier: Apache-2.0
// Prepares the program for counting: one function per kernel, in SSA form, lightly cleaned.
#pragma once

#include <llvm/IR/Module.h>

#include <vector>

namespace clinst {

// Inlines every call into its kernel and runs the clean-up that defines a block. Returns the
// kernels in the module's order, each with one return block. Throws Failure on recursion.
std::vector<llvm::Function *> prepare(llvm::Module &module);

}  // namespace clinst
