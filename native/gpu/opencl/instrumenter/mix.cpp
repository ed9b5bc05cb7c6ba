// SPDX-License-Identifier: Apache-2.0
#include "mix.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include "versions.h"

namespace clinst {
namespace {

// Address spaces of SPIR.
enum Space { kPrivate = 0, kGlobal = 1, kConstant = 2, kLocal = 3, kGeneric = 4 };

xp_mix memory_class(const llvm::Value *pointer, bool store) {
  switch (pointer->getType()->getPointerAddressSpace()) {
    case kPrivate:
      return XP_MIX_PRIVATE;
    case kLocal:
      return store ? XP_MIX_STORE_LOCAL : XP_MIX_LOAD_LOCAL;
    default:
      return store ? XP_MIX_STORE_GLOBAL : XP_MIX_LOAD_GLOBAL;
  }
}

xp_mix call_class(const llvm::CallBase &call) {
  const llvm::Function *callee = call.getCalledFunction();
  if (!callee) return XP_MIX_OTHER;
  if (auto *memory = llvm::dyn_cast<llvm::MemIntrinsic>(&call)) {
    return memory_class(memory->getRawDest(), true);
  }
  if (callee->isIntrinsic()) {
    return call.getType()->isFPOrFPVectorTy() ? XP_MIX_FP : XP_MIX_INT;
  }
  llvm::StringRef name = builtin_name(callee->getName());
  if (starts_with(name, "atom")) return XP_MIX_ATOMIC;
  if (name == "barrier" || ends_with(name, "group_barrier")) return XP_MIX_BARRIER;
  if (starts_with(name, "vload")) return memory_class(call.getArgOperand(1), false);
  if (starts_with(name, "vstore")) return memory_class(call.getArgOperand(2), true);
  return XP_MIX_SPECIAL;
}

xp_mix class_of(const llvm::Instruction &instruction) {
  using llvm::dyn_cast;
  if (instruction.isTerminator()) return XP_MIX_BRANCH;
  if (auto *load = dyn_cast<llvm::LoadInst>(&instruction)) {
    return memory_class(load->getPointerOperand(), false);
  }
  if (auto *store = dyn_cast<llvm::StoreInst>(&instruction)) {
    return memory_class(store->getPointerOperand(), true);
  }
  if (instruction.isAtomic()) return XP_MIX_ATOMIC;
  if (auto *call = dyn_cast<llvm::CallBase>(&instruction)) return call_class(*call);
  if (llvm::isa<llvm::AllocaInst>(instruction)) return XP_MIX_PRIVATE;
  if (llvm::isa<llvm::FCmpInst>(instruction)) return XP_MIX_FP;
  if (instruction.isBinaryOp() || instruction.isUnaryOp()) {
    return instruction.getType()->isFPOrFPVectorTy() ? XP_MIX_FP : XP_MIX_INT;
  }
  if (instruction.isCast() || llvm::isa<llvm::CmpInst>(instruction) ||
      llvm::isa<llvm::GetElementPtrInst>(instruction)) {
    return XP_MIX_INT;
  }
  return XP_MIX_OTHER;  // select, vector shuffles, aggregates
}

bool counts(const llvm::Instruction &instruction) {
  if (llvm::isa<llvm::PHINode>(instruction) || instruction.isDebugOrPseudoInst()) return false;
  auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return !intrinsic || !intrinsic->isAssumeLikeIntrinsic();
}

}  // namespace

llvm::StringRef builtin_name(llvm::StringRef mangled) {
  if (!mangled.consume_front("_Z")) return mangled;
  size_t length = 0;
  if (mangled.consumeInteger(10, length)) return mangled;
  return mangled.take_front(length);
}

xpu_block count_instructions(const llvm::BasicBlock &block) {
  xpu_block result{};
  for (const llvm::Instruction &instruction : block) {
    if (!counts(instruction)) continue;
    result.instructions++;
    result.mix[class_of(instruction)]++;
  }
  return result;
}

bool has_barrier(const llvm::BasicBlock &block) {
  return count_instructions(block).mix[XP_MIX_BARRIER] != 0;
}

}  // namespace clinst
