// SPDX-License-Identifier: Apache-2.0
// Counters whose values follow from the launch: expressions over work-item ids, sizes and integer
// arguments, for the layer to evaluate on the host, so that the program's own kernel can run.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <vector>

#include "exit.h"
#include "request.h"

namespace clinst {

// Keeps the slots' values at the kernel's return visible to the passes that follow.
llvm::CallInst *observe(llvm::Function &function, const std::vector<Slot> &slots);

// Fills in the kernel's nodes and outputs when every counter can be written as such an expression,
// and removes what `observe` made.
void find_analytic_counts(llvm::CallInst *observer, const std::vector<Slot> &slots,
                          const Warps &warps, Kernel *kernel);

}  // namespace clinst
