// SPDX-License-Identifier: Apache-2.0
// Values that are the same for all work-items of a group, because they come from the kernel's
// arguments and the sizes of the launch alone.
#pragma once

#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Value.h>

namespace clinst {

bool is_uniform(const llvm::Value *value);
bool is_uniform(const llvm::SCEV *value);

// Recomputes a uniform value at the builder's position, however far that is from its definition.
llvm::Value *compute(llvm::Value *value, llvm::IRBuilder<> &builder);
llvm::Value *compute(const llvm::SCEV *value, llvm::IRBuilder<> &builder);

}  // namespace clinst
