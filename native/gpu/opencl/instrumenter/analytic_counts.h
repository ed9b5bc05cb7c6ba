// SPDX-License-Identifier: Apache-2.0
// Counters whose values follow from the launch: expressions over work-item ids, sizes and integer
// arguments. The layer evaluates them on the host, so that the program's own kernel can run.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>

#include <vector>

#include "exit.h"
#include "protocol/messages.hpp"

namespace clinst {

// Keeps the slots' values at the kernel's return visible to passes, until stop_observing().
llvm::CallInst *observe(llvm::Function &function, const std::vector<Slot> &slots);

void stop_observing(llvm::CallInst *observer);

// Fills in the kernel's nodes and outputs if every counter has such an expression.
void find_analytic_counts(llvm::CallInst *observer, const std::vector<Slot> &slots,
                          const Warps &warps, llvm::FunctionAnalysisManager &analyses,
                          Kernel *kernel);

}  // namespace clinst
