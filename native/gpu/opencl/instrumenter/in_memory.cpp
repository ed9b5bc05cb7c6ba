// SPDX-License-Identifier: Apache-2.0
#include "in_memory.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>

#include "exit_code.h"
#include "mix.h"

namespace clinst {
namespace {

using llvm::BasicBlock;
using llvm::Value;

constexpr auto kOrder = llvm::AtomicOrdering::Monotonic;
using Blocks = llvm::SmallSetVector<BasicBlock *, 16>;

// The blocks that control reaches from `blocks`, which are among them; not beyond a block with a
// barrier if `up_to_barriers`.
Blocks reached_from(Blocks blocks, bool up_to_barriers) {
  for (size_t i = 0; i < blocks.size(); i++) {
    if (up_to_barriers && has_barrier(*blocks[i])) continue;
    for (BasicBlock *next : llvm::successors(blocks[i])) blocks.insert(next);
  }
  return blocks;
}

Blocks with_barriers(llvm::Function &function) {
  Blocks blocks;
  for (BasicBlock &block : function) {
    if (has_barrier(block)) blocks.insert(&block);
  }
  return blocks;
}

// Before the last block, for those that come from a barrier; none if all do, if none does, or if
// some block before the last is reached both from a barrier and without one.
BasicBlock *end_after_barriers(llvm::Function &function, BasicBlock *last) {
  Blocks entry, after, before;
  entry.insert(&function.getEntryBlock());
  Blocks early = reached_from(entry, true);
  Blocks late = reached_from(with_barriers(function), false);
  for (BasicBlock *block : llvm::predecessors(last)) {
    const bool without = early.contains(block) && !has_barrier(*block);
    if (without && late.contains(block)) return nullptr;
    (without ? before : after).insert(block);
  }
  if (before.empty() || after.empty()) return nullptr;
  return llvm::SplitBlockPredecessors(last, after.getArrayRef(), ".after_barriers");
}

class InMemory : ExitCode {
 public:
  using ExitCode::ExitCode;

  void emit(const std::vector<BasicBlock *> &places) {
    Value *item = linear("get_local_id", "get_local_size");
    Value *own = b_.CreateMul(own_warp(), number(n_probes_));
    row_ = place_of_counter(b_.CreateAdd(counters_of_group(), own));
    Value *lane = b_.CreateURem(item, number(warps_.size));
    when(b_.CreateICmpEQ(lane, number(0)), [&] {
      loop(number(0), number(n_probes_), [&](Value *probe) { store(number(0), probe); });
    });
    for (uint32_t probe = 0; probe < places.size(); probe++) {
      b_.SetInsertPoint(places[probe]->getTerminator());
      increment(number(probe));
    }
    if (llvm::ReturnInst *end = only_return(function_)) {
      separate_ends(end->getParent());
      b_.SetInsertPoint(end);
      by_leader([&] { header(number(warps_.size), full_warps()); });
    }
  }

 private:
  // PoCL 3.1 runs what follows the last barrier for a group that has returned before the first if
  // code from there and code on the way to that return meet, even only in the same last block.
  void separate_ends(BasicBlock *last) {
    BasicBlock *late = end_after_barriers(function_, last);
    if (!late) return;
    b_.SetInsertPoint(late->getTerminator());
    barrier(kLocalFence);
  }

  void store(Value *value, Value *probe) {
    b_.CreateAlignedStore(value, place(probe), llvm::Align(8))->setAtomic(kOrder);
  }

  void increment(Value *probe) {
    auto *count = b_.CreateAlignedLoad(b_.getInt64Ty(), place(probe), llvm::Align(8));
    count->setAtomic(kOrder);
    store(b_.CreateAdd(count, number(1)), probe);
  }

  Value *place(Value *probe) { return b_.CreateGEP(b_.getInt64Ty(), row_, probe); }

  Value *row_ = nullptr;  // of the work-item's warp
};

// Whether each of these blocks is executed whenever the kernel, or the loop around it, is.
bool are_regular(const Blocks &blocks, llvm::Function &function,
                 llvm::FunctionAnalysisManager &analyses) {
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  auto &dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  auto &after = analyses.getResult<llvm::PostDominatorTreeAnalysis>(function);
  return llvm::all_of(blocks, [&](BasicBlock *block) {
    while (llvm::Loop *loop = loops.getLoopFor(block)) {
      llvm::SmallVector<BasicBlock *, 4> latches;
      loop->getLoopLatches(latches);
      auto dominated = [&](BasicBlock *latch) { return dominators.dominates(block, latch); };
      if (!llvm::all_of(latches, dominated)) return false;
      block = loop->getLoopPreheader();
      if (!block) return false;
    }
    return after.dominates(block, &function.getEntryBlock());
  });
}

}  // namespace

bool counts_in_memory(llvm::Function &function, uint32_t n_probes, const Warps &warps,
                      llvm::FunctionAnalysisManager &analyses) {
  if (!warps.most_in_registers) return false;
  return n_probes > *warps.most_in_registers ||
         !are_regular(with_barriers(function), function, analyses);
}

void count_in_memory(llvm::Function &function, std::vector<BasicBlock *> places,
                     const Warps &warps) {
  BasicBlock *entry = &function.getEntryBlock();
  auto begin = std::find_if(entry->begin(), entry->end(), [](const llvm::Instruction &one) {
    return !llvm::isa<llvm::AllocaInst>(one);
  });
  std::replace(places.begin(), places.end(), entry, llvm::SplitBlock(entry, &*begin));
  const uint32_t n_probes = places.size();
  InMemory(function, entry->getTerminator(), n_probes, warps).emit(places);
}

}  // namespace clinst
