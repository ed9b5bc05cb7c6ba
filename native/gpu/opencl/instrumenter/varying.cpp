// SPDX-License-Identifier: Apache-2.0
#include "varying.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/IRBuilder.h>

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

}  // namespace clinst
