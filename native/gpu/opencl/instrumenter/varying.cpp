// SPDX-License-Identifier: Apache-2.0
#include "varying.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "built_ins.h"
#include "trip_counts.h"
#include "versions.h"

namespace clinst {
namespace {

using llvm::Value;

// The merges of which a counter is made.
llvm::SmallSetVector<llvm::PHINode *, 8> merges_of(Value *counter) {
  llvm::SmallSetVector<llvm::PHINode *, 8> merges;
  llvm::SmallSetVector<Value *, 16> parts;
  parts.insert(counter);
  for (size_t i = 0; i < parts.size(); i++) {
    auto *part = llvm::dyn_cast<llvm::Instruction>(parts[i]);
    if (!part || llvm::isa<llvm::CallBase>(part)) continue;
    auto *merge = llvm::dyn_cast<llvm::PHINode>(part);
    if (merge && starts_with(merge->getName(), kCounterName)) merges.insert(merge);
    for (Value *operand : part->operands()) parts.insert(operand);
  }
  return merges;
}

// The highest bit of a local id.
Value *zero(llvm::Function &function) {
  llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
  return builder.CreateLShr(query(builder, "get_local_id", 0), 63);
}

}  // namespace

void make_varying(llvm::Function &function, const std::vector<Slot> &slots) {
  Value *varies = nullptr;
  for (const Slot &slot : slots) {
    if (!slot.varies) continue;
    for (llvm::PHINode *merge : merges_of(slot.result)) {
      for (llvm::Use &use : merge->incoming_values()) {
        auto *constant = llvm::dyn_cast<llvm::ConstantInt>(use);
        if (!constant) continue;
        if (!varies) varies = zero(function);
        auto *after = llvm::cast<llvm::Instruction>(varies)->getNextNode();
        llvm::IRBuilder<> builder(after);
        use.set(builder.CreateOr(builder.CreateTrunc(varies, constant->getType()), constant));
      }
    }
  }
}

void make_body_varying(llvm::Function &function, std::vector<Slot> &slots) {
  llvm::ReturnInst *end = only_return(function);
  llvm::BasicBlock *first = &function.getEntryBlock();
  if (!end || end->getParent() == first) return;
  llvm::BasicBlock *last = llvm::SplitBlock(end->getParent(), end);
  llvm::BasicBlock *body_end = last->getSinglePredecessor();
  Value *varies = zero(function);
  llvm::BasicBlock *body = llvm::SplitBlock(first, first->getTerminator());
  llvm::IRBuilder<> builder(first->getTerminator());
  builder.CreateCondBr(builder.CreateIsNull(varies), body, last);
  first->getTerminator()->eraseFromParent();
  builder.SetInsertPoint(&last->front());
  for (Slot &slot : slots) {
    auto *type = slot.result->getType();
    llvm::PHINode *merge = builder.CreatePHI(type, 2);
    merge->addIncoming(slot.result, body_end);
    merge->addIncoming(llvm::Constant::getNullValue(type), first);
    slot.result = merge;
  }
}

}  // namespace clinst
