// SPDX-License-Identifier: Apache-2.0
// How often loops turn at most, whatever their data.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Dominators.h>

namespace clinst {

// How often a work-item that ends executes the block at most; the largest number if that is
// unknown. The function has no irreducible cycles.
uint64_t most_executions(llvm::BasicBlock *block, const llvm::DominatorTree &dominators,
                         llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution);

}  // namespace clinst
