// SPDX-License-Identifier: Apache-2.0
#include "prepare.h"

#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include "analyses.h"
#include "protocol/messages.hpp"

namespace clinst {
namespace {

bool is_kernel(const llvm::Function &function) {
  return function.getCallingConv() == llvm::CallingConv::SPIR_KERNEL && !function.isDeclaration();
}

// A kernel called by other kernels remains as an ordinary function for them: as a kernel it gets
// extra arguments.
void split_called_kernels(llvm::Module &module) {
  std::vector<llvm::Function *> called;
  for (llvm::Function &function : module) {
    if (is_kernel(function) && !function.use_empty()) called.push_back(&function);
  }
  for (llvm::Function *kernel : called) {
    llvm::ValueToValueMapTy map;
    llvm::Function *body = llvm::CloneFunction(kernel, map);
    body->setName(kernel->getName() + ".body");
    body->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    body->setLinkage(llvm::GlobalValue::InternalLinkage);
    kernel->replaceAllUsesWith(body);
    for (llvm::User *user : body->users()) {
      if (auto *call = llvm::dyn_cast<llvm::CallBase>(user)) {
        call->setCallingConv(llvm::CallingConv::SPIR_FUNC);
      }
    }
  }
}

void mark_for_inlining(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    function.removeFnAttr(llvm::Attribute::OptimizeNone);
    function.removeFnAttr(llvm::Attribute::NoInline);
    if (is_kernel(function)) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

void run_passes(llvm::Module &module, const char *pipeline) {
  Analyses analyses;
  llvm::ModulePassManager passes;
  llvm::cantFail(analyses.builder.parsePassPipeline(passes, pipeline));
  passes.run(module, analyses.modules);
}

// InstCombine narrows a switch to the bits that matter, two for example; SPIR-V has no such type,
// and PoCL 3.1's lowering takes the wrong branch.
void widen_switches(llvm::Function &kernel) {
  for (llvm::BasicBlock &block : kernel) {
    auto *choice = llvm::dyn_cast<llvm::SwitchInst>(block.getTerminator());
    if (!choice) continue;
    unsigned narrow = choice->getCondition()->getType()->getIntegerBitWidth();
    if (narrow >= 8 && llvm::isPowerOf2_32(narrow) && narrow <= 64) continue;
    llvm::IRBuilder<> builder(choice);
    llvm::Value *condition = choice->getCondition();
    auto *type = narrow <= 32 ? builder.getInt32Ty() : builder.getInt64Ty();
    auto *cut = llvm::dyn_cast<llvm::TruncInst>(condition);
    if (cut && cut->getSrcTy()->getIntegerBitWidth() <= type->getBitWidth()) {
      auto mask = llvm::APInt::getLowBitsSet(type->getBitWidth(), narrow);
      auto *wide = builder.CreateZExt(cut->getOperand(0), type);
      choice->setCondition(builder.CreateAnd(wide, llvm::ConstantInt::get(type, mask)));
      if (cut->use_empty()) cut->eraseFromParent();
    } else {
      choice->setCondition(builder.CreateZExt(condition, type));
    }
    for (auto &one : choice->cases()) {
      one.setValue(llvm::ConstantInt::get(type, one.getCaseValue()->getZExtValue()));
    }
  }
}

// A switch with complete cases has an unreachable default: its last case becomes the default.
void drop_dead_defaults(llvm::Function &kernel) {
  for (llvm::BasicBlock &block : kernel) {
    auto *choice = llvm::dyn_cast<llvm::SwitchInst>(block.getTerminator());
    if (!choice || choice->getNumCases() == 0) continue;
    llvm::BasicBlock *dead = choice->getDefaultDest();
    if (!llvm::isa<llvm::UnreachableInst>(dead->front())) continue;
    auto last = std::prev(choice->case_end());
    choice->setDefaultDest(last->getCaseSuccessor());
    choice->removeCase(last);
  }
  llvm::removeUnreachableBlocks(kernel);
}

// Work-items meet again at one return, where a barrier is legal. Unreachable code leads there too:
// with another end the barrier looks conditional, and PoCL 3.1 then takes the first work-item's
// branch for all.
void unify_returns(llvm::Function &kernel) {
  std::vector<llvm::Instruction *> ends;
  bool unreachable = false;
  for (llvm::BasicBlock &block : kernel) {
    llvm::Instruction *end = block.getTerminator();
    unreachable |= llvm::isa<llvm::UnreachableInst>(end);
    if (end->getNumSuccessors() == 0) ends.push_back(end);
  }
  if (ends.size() < 2 && !unreachable) return;
  auto *exit = llvm::BasicBlock::Create(kernel.getContext(), "return", &kernel);
  llvm::ReturnInst::Create(kernel.getContext(), exit);
  for (llvm::Instruction *end : ends) {
    llvm::IRBuilder<>(end).CreateBr(exit);
    end->eraseFromParent();
  }
}

// State that a program keeps between launches would be duplicated when some kernels run
// instrumented and others, with analytic counts, run unchanged.
void refuse_variables(const llvm::Module &module) {
  constexpr unsigned global_memory = 1;
  for (const llvm::GlobalVariable &variable : module.globals()) {
    if (variable.isDeclaration() || variable.isConstant() ||
        variable.getAddressSpace() != global_memory)
      continue;
    throw Failure("the program keeps the variable '" + variable.getName().str() +
                  "' between launches");
  }
}

}  // namespace

std::vector<llvm::Function *> prepare(llvm::Module &module) {
  // A program built with -g: nobody debugs its counted kernels, and the translator may give up.
  llvm::StripDebugInfo(module);
  split_called_kernels(module);
  mark_for_inlining(module);
  // SPIR's layout names no native integers, so InstCombine uses any width, two bits for example,
  // which SPIR-V lacks.
  const std::string layout = module.getDataLayoutStr();
  if (layout.find("-n") == std::string::npos) module.setDataLayout(layout + "-n8:16:32:64");
  run_passes(module,
             "always-inline,globaldce,"
             "function(sroa,early-cse,simplifycfg,instcombine,simplifycfg,adce),globaldce");
  module.setDataLayout(layout);
  refuse_variables(module);
  std::vector<llvm::Function *> kernels;
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    if (!is_kernel(function)) {
      throw Failure("the function '" + function.getName().str() +
                    "' is recursive or its address is taken, which OpenCL C does not allow");
    }
    widen_switches(function);
    drop_dead_defaults(function);
    unify_returns(function);
    kernels.push_back(&function);
  }
  return kernels;
}

}  // namespace clinst
