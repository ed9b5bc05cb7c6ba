// SPDX-License-Identifier: Apache-2.0
#include "in_memory.h"

#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>

#include "exit_code.h"

namespace clinst {
namespace {

using llvm::BasicBlock;
using llvm::Value;

constexpr auto kOrder = llvm::AtomicOrdering::Monotonic;

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
      b_.SetInsertPoint(end);
      by_leader([&] { header(number(warps_.size), full_warps()); });
    }
  }

 private:
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

}  // namespace

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
