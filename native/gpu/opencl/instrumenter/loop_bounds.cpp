// SPDX-License-Identifier: Apache-2.0
#include "loop_bounds.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Support/MathExtras.h>

#include <limits>
#include <vector>

namespace clinst {
namespace {

using llvm::Value;

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

bool only_computes(const llvm::Instruction &instruction) {
  return llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::ICmpInst, llvm::SelectInst,
                   llvm::FreezeInst>(instruction);
}

// The bits of the variables that alone decide whether the loop goes on; none: other things do, too.
uint64_t state_bits(const llvm::Loop &loop, Value *goes_on) {
  llvm::SmallPtrSet<Value *, 16> seen;
  std::vector<Value *> left{goes_on};
  uint64_t bits = 0;
  while (!left.empty()) {
    Value *value = left.back();
    left.pop_back();
    if (loop.isLoopInvariant(value) || !seen.insert(value).second) continue;
    auto *instruction = llvm::cast<llvm::Instruction>(value);
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(instruction)) {
      if (phi->getParent() != loop.getHeader() || !phi->getType()->isIntegerTy()) return 0;
      bits += phi->getType()->getIntegerBitWidth();
      left.push_back(phi->getIncomingValueForBlock(loop.getLoopLatch()));
    } else {
      if (!only_computes(*instruction)) return 0;
      left.insert(left.end(), instruction->op_begin(), instruction->op_end());
    }
  }
  return bits;
}

// The block that may leave the loop, the only one, if it does so once a turn: not in a loop within.
llvm::BasicBlock *own_exit(const llvm::Loop &loop, const llvm::LoopInfo &loops) {
  llvm::BasicBlock *exiting = loop.getExitingBlock();
  return exiting && loops.getLoopFor(exiting) == &loop ? exiting : nullptr;
}

// A loop that only its own variables end has ended before they come to the same values again.
uint64_t most_by_state(const llvm::Loop &loop, const llvm::DominatorTree &dominators,
                       const llvm::LoopInfo &loops) {
  llvm::BasicBlock *exiting = own_exit(loop, loops), *latch = loop.getLoopLatch();
  if (!exiting || !latch || !dominators.dominates(exiting, latch)) return kUnknown;
  auto *branch = llvm::dyn_cast<llvm::BranchInst>(exiting->getTerminator());
  if (!branch) return kUnknown;
  const uint64_t bits = state_bits(loop, branch->getCondition());
  return bits && bits < 64 ? (uint64_t{1} << bits) - 1 : kUnknown;
}

// For each entry of the loop, how often its back edges are taken at most.
uint64_t most_turns(const llvm::Loop &loop, const llvm::DominatorTree &dominators,
                    const llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution) {
  auto *most =
      llvm::dyn_cast<llvm::SCEVConstant>(evolution.getConstantMaxBackedgeTakenCount(&loop));
  return std::min(most ? most->getAPInt().getLimitedValue() : kUnknown,
                  most_by_state(loop, dominators, loops));
}

}  // namespace

uint64_t most_executions(llvm::BasicBlock *block, const llvm::DominatorTree &dominators,
                         llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution) {
  uint64_t product = 1;
  for (llvm::Loop *loop = loops.getLoopFor(block); loop; loop = loop->getParentLoop()) {
    uint64_t times = most_turns(*loop, dominators, loops, evolution);
    llvm::BasicBlock *exiting = own_exit(*loop, loops);
    const bool not_in_last = exiting && dominators.properlyDominates(exiting, block);
    if (!not_in_last) times = llvm::SaturatingAdd(times, uint64_t{1});
    product = llvm::SaturatingMultiply(product, times);
  }
  return product;
}

}  // namespace clinst
