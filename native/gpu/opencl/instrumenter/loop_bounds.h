// SPDX-License-Identifier: Apache-2.0
// Loop exits, and upper bounds on trip counts that hold for any data.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Dominators.h>

namespace clinst {

// Whether all cycles are loops.
bool is_reducible(llvm::Function &function, const llvm::LoopInfo &loops);

// The block that decides in each turn whether the loop goes on, if nothing else does; or NULL.
llvm::BasicBlock *only_exit(const llvm::Loop &loop, const llvm::DominatorTree &dominators,
                            const llvm::LoopInfo &loops);

// How often a work-item that ends executes the block at most; the largest number if that is
// unknown. The function is reducible.
uint64_t most_executions(llvm::BasicBlock *block, const llvm::DominatorTree &dominators,
                         llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution);

}  // namespace clinst
