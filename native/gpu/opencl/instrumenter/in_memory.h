// SPDX-License-Identifier: Apache-2.0
// Counters of kernels that have very many of them, on PoCL.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/PassManager.h>

#include <vector>

#include "exit.h"

namespace clinst {

// PoCL 3.1 turns each merge of a register into a variable of its own, and copies all that it knows
// about the kernel for each: its time grows with the square of their number, and counters are
// merged wherever branches meet. So these are incremented where they will be read, in the row of
// the work-item's warp in the launch's buffer. PoCL runs the work-items of a group one after the
// other on one thread, in the order of their ids, so the first of a warp clears the row; what is
// atomic is not made a vector. There is no joint end, which would need a barrier. Only where some
// groups return before the kernel's first barrier do the others meet at one before they end.
//
// Kernels with a barrier that not every work-item passes count in memory, too: with another at the
// joint end, PoCL was seen to take the branches of some work-items for others.
bool counts_in_memory(llvm::Function &function, uint32_t n_probes, const Warps &warps,
                      llvm::FunctionAnalysisManager &analyses);

// `places`: by probe, the block whose executions it counts.
void count_in_memory(llvm::Function &function, std::vector<llvm::BasicBlock *> places,
                     const Warps &warps);

}  // namespace clinst
