// SPDX-License-Identifier: Apache-2.0
#include "pocl.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/LowerSwitch.h>

#include "mix.h"
#include "protocol/messages.hpp"
#include "versions.h"

namespace clinst {
namespace {

std::vector<llvm::CallInst *> calls_of(llvm::Function &function) {
  std::vector<llvm::CallInst *> calls;
  for (llvm::User *user : function.users()) calls.push_back(llvm::cast<llvm::CallInst>(user));
  return calls;
}

// Fences of a work-item, which PoCL's library has for source only.
void replace_by_fence(llvm::Function &function) {
  for (llvm::CallInst *call : calls_of(function)) {
    llvm::IRBuilder<>(call).CreateFence(llvm::AtomicOrdering::AcquireRelease);
    call->eraseFromParent();
  }
}

// PoCL's own wait_group_events, which it cannot find from bitcode, is such a barrier: its copies
// are done when they return. A work-group barrier with a scope is also one on CPUs.
void replace_by_barrier(llvm::Function &function, bool has_flags) {
  llvm::Module &module = *function.getParent();
  llvm::LLVMContext &context = module.getContext();
  auto *flags_type = llvm::Type::getInt32Ty(context);
  auto callee =
      module.getOrInsertFunction("_Z7barrierj", llvm::Type::getVoidTy(context), flags_type);
  auto *barrier = llvm::cast<llvm::Function>(callee.getCallee());
  barrier->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  barrier->setConvergent();
  for (llvm::CallInst *call : calls_of(function)) {
    constexpr uint32_t kLocalAndGlobal = 3;
    llvm::Value *flags =
        has_flags ? call->getArgOperand(0) : llvm::ConstantInt::get(flags_type, kLocalAndGlobal);
    auto *instead = llvm::IRBuilder<>(call).CreateCall(callee, flags);
    instead->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    instead->setConvergent();
    call->eraseFromParent();
  }
}

// The name of a function that PoCL's library has for bitcode, in place of one that it only has for
// source; it computes the same to the last bit. Empty: the function keeps its name.
std::string name_for_bitcode(llvm::StringRef name, llvm::StringRef mangled) {
  if (name == "half_recip" || name == "half_divide") return "native_" + name.substr(5).str();
  if (starts_with(name, "half_")) return name.substr(5).str();
  // Those of 64 bits are there.
  const bool of_32_bits = ends_with(mangled, "i") || ends_with(mangled, "j");
  return starts_with(name, "atom_") && of_32_bits ? "atomic_" + name.substr(5).str() : "";
}

void rename(llvm::Function &function, llvm::StringRef from, const std::string &to) {
  const llvm::StringRef arguments =
      function.getName().drop_front(2 + std::to_string(from.size()).size() + from.size());
  const std::string mangled = "_Z" + std::to_string(to.size()) + to + arguments.str();
  if (llvm::Function *other = function.getParent()->getFunction(mangled)) {
    function.replaceAllUsesWith(other);
    function.eraseFromParent();
  } else {
    function.setName(mangled);
  }
}

bool missing(llvm::StringRef name, llvm::StringRef mangled) {
  if (name == "shuffle" || name == "shuffle2") return mangled.contains("Dv3_");
  if (starts_with(name, "get_image_")) return mangled.contains("image1d_buffer");
  return name == "write_imagei" &&
         (mangled.contains("image2d_array") || mangled.contains("image3d"));
}

// PoCL's passes may find a switch complete and give it a default that is never reached, which makes
// the closing barrier look conditional (prepare.cpp). They leave comparisons unchanged.
void lower_switches(llvm::Module &module, llvm::FunctionAnalysisManager &analyses) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    llvm::LowerSwitchPass().run(function, analyses);
    analyses.invalidate(function, llvm::PreservedAnalyses::none());
  }
}

// A vector of up to 8 bytes as C on x86-64 passes it: as a number. Others are passed as they are.
llvm::Value *as_in_c(llvm::IRBuilder<> &builder, llvm::Value *value) {
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  if (!vector) return value;
  if (vector->getNumElements() == 3) value = builder.CreateShuffleVector(value, {0, 1, 2, -1});
  const unsigned bits = value->getType()->getPrimitiveSizeInBits();
  if (bits > 64) return value;
  auto *number = bits == 64 ? builder.getDoubleTy() : builder.getIntNTy(bits);
  return builder.CreateBitCast(value, number);
}

// PoCL's printf is C of the host, which takes vectors from its variable arguments.
void pass_vectors_as_in_c(llvm::Function &printf) {
  for (llvm::CallInst *call : calls_of(printf)) {
    llvm::IRBuilder<> builder(call);
    for (llvm::Use &argument : call->args()) argument.set(as_in_c(builder, argument));
  }
}

}  // namespace

void adapt_to_pocl(llvm::Module &module, llvm::FunctionAnalysisManager &analyses) {
  lower_switches(module, analyses);
  std::vector<llvm::Function *> declared;
  for (llvm::Function &function : module) {
    if (function.isDeclaration() && !function.use_empty()) declared.push_back(&function);
  }
  for (llvm::Function *function : declared) {
    llvm::StringRef name = builtin_name(function->getName());
    const std::string other = name_for_bitcode(name, function->getName());
    if (function->getName() == "printf") {
      pass_vectors_as_in_c(*function);
    } else if (!other.empty()) {
      rename(*function, name, other);
    } else if (name == "wait_group_events") {
      replace_by_barrier(*function, false);
    } else if (name == "work_group_barrier") {
      replace_by_barrier(*function, true);
    } else if (ends_with(name, "mem_fence")) {
      replace_by_fence(*function);
    } else if (missing(name, function->getName())) {
      throw Failure("PoCL cannot run the built-in function '" + name.str() +
                    "' with these arguments from bitcode");
    }
  }
}

}  // namespace clinst
