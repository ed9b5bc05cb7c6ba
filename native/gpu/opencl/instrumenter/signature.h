// SPDX-License-Identifier: Apache-2.0
// The kernel with our three arguments after its own.
#pragma once

#include <llvm/IR/Function.h>

namespace clinst {

// Moves the kernel's body into a function with the arguments of clinst_protocol.h added; name,
// attributes and kernel_arg_* metadata follow. The old function is erased.
llvm::Function *add_arguments(llvm::Function &kernel, bool with_scratch);

// Our arguments of such a function.
inline llvm::Argument *counters_argument(llvm::Function &f) { return f.arg_end() - 3; }
inline llvm::Argument *first_argument(llvm::Function &f) { return f.arg_end() - 2; }
inline llvm::Argument *scratch_argument(llvm::Function &f) { return f.arg_end() - 1; }

}  // namespace clinst
