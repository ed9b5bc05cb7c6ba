// SPDX-License-Identifier: Apache-2.0
#include "loop_bounds.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/CFG.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
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

// The bits of the loop's variables that decide whether it goes on; 0: something else decides, too.
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

// A loop whose exit depends on its own variables alone ends before these repeat a state.
uint64_t most_by_state(const llvm::Loop &loop, const llvm::DominatorTree &dominators,
                       const llvm::LoopInfo &loops) {
  llvm::BasicBlock *exiting = only_exit(loop, dominators, loops);
  auto *branch = exiting ? llvm::dyn_cast<llvm::BranchInst>(exiting->getTerminator()) : nullptr;
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

bool is_reducible(llvm::Function &function, const llvm::LoopInfo &loops) {
  llvm::ReversePostOrderTraversal<llvm::Function *> order(&function);
  return !llvm::containsIrreducibleCFG<llvm::BasicBlock *>(order, loops);
}

llvm::BasicBlock *only_exit(const llvm::Loop &loop, const llvm::DominatorTree &dominators,
                            const llvm::LoopInfo &loops) {
  llvm::BasicBlock *exiting = loop.getExitingBlock(), *latch = loop.getLoopLatch();
  // A block of an inner loop may run several times per iteration.
  const bool decides = exiting && latch && dominators.dominates(exiting, latch) &&
                       loops.getLoopFor(exiting) == &loop;
  return decides ? exiting : nullptr;
}

uint64_t most_executions(llvm::BasicBlock *block, const llvm::DominatorTree &dominators,
                         llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution) {
  uint64_t product = 1;
  for (llvm::Loop *loop = loops.getLoopFor(block); loop; loop = loop->getParentLoop()) {
    uint64_t times = most_turns(*loop, dominators, loops, evolution);
    llvm::BasicBlock *exiting = only_exit(*loop, dominators, loops);
    const bool not_in_last = exiting && dominators.properlyDominates(exiting, block);
    if (!not_in_last) times = llvm::SaturatingAdd(times, uint64_t{1});
    product = llvm::SaturatingMultiply(product, times);
  }
  return product;
}

}  // namespace clinst
