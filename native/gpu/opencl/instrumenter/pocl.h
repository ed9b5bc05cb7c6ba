// SPDX-License-Identifier: Apache-2.0
// Rewrites what PoCL 3.1 cannot handle in bitcode programs.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>

namespace clinst {

// Lowers switches and replaces built-in functions that PoCL declares but does not define on this
// path; launching a kernel with one of them would end the application. Throws Failure for those
// without a replacement, so that the program runs uninstrumented.
void adapt_to_pocl(llvm::Module &module, llvm::FunctionAnalysisManager &analyses);

}  // namespace clinst
