// SPDX-License-Identifier: Apache-2.0
// The program as it is counted: one function a kernel, in SSA form, lightly cleaned.
#pragma once

#include <llvm/IR/Module.h>

#include <vector>

namespace clinst {

// Inlines every call into its kernel and runs the clean-up that defines what a block is. Returns
// the kernels in the module's order, each with one block of return. Throws Failure on recursion.
std::vector<llvm::Function *> prepare(llvm::Module &module);

}  // namespace clinst
