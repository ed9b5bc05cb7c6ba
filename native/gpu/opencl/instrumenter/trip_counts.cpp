// SPDX-License-Identifier: Apache-2.0
#include "trip_counts.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <vector>

#include "versions.h"

namespace clinst {
namespace {

llvm::SCEVExpander expander_of(llvm::ScalarEvolution &evolution,
                               [[maybe_unused]] const llvm::Module &module) {
#if LLVM_VERSION_MAJOR < 22
  return llvm::SCEVExpander(evolution, module.getDataLayout(), kCounterName);
#else
  return llvm::SCEVExpander(evolution, kCounterName);
#endif
}

constexpr unsigned kBudget = 16;  // cheap instructions before a loop; excludes divisions

bool cheap(const llvm::SCEV *value, llvm::Loop &loop, llvm::ScalarEvolution &evolution,
           llvm::SCEVExpander &expander, const llvm::TargetTransformInfo &target,
           llvm::Instruction *at) {
  // Other widths exceed 64 bits, which is slow, or are narrow ones that SPIR-V lacks.
  bool odd = llvm::SCEVExprContains(value, [&](const llvm::SCEV *part) {
    uint64_t bits = evolution.getTypeSizeInBits(part->getType());
    return bits < 8 || bits > 64 || !llvm::isPowerOf2_64(bits);
  });
  return !odd && !expander.isHighCostExpansion(value, &loop, kBudget, &target, at);
}

}  // namespace

BuiltInsReturn::BuiltInsReturn(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (!function.isDeclaration() || function.isIntrinsic()) continue;
    for (auto kind : {llvm::Attribute::WillReturn, llvm::Attribute::NoUnwind}) {
      if (function.hasFnAttribute(kind)) continue;
      function.addFnAttr(kind);
      added_.emplace_back(&function, kind);
    }
  }
}

BuiltInsReturn::~BuiltInsReturn() {
  for (auto [function, kind] : added_) function->removeFnAttr(kind);
}

bool trip_count_known(const llvm::Loop &loop, llvm::Function &function,
                      llvm::FunctionAnalysisManager &analyses) {
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  if (!evolution.hasLoopInvariantBackedgeTakenCount(&loop)) return false;
  llvm::BasicBlock *before = loop.getLoopPredecessor();
  if (!before) return false;
  auto &target = analyses.getResult<llvm::TargetIRAnalysis>(function);
  llvm::SCEVExpander expander = expander_of(evolution, *function.getParent());
  return cheap(evolution.getBackedgeTakenCount(&loop), const_cast<llvm::Loop &>(loop), evolution,
               expander, target, before->getTerminator());
}

namespace {

bool is_counter(const llvm::Instruction &instruction) {
  return instruction.getType()->isIntegerTy(64) &&
         starts_with(instruction.getName(), kCounterName) &&
         (llvm::isa<llvm::PHINode>(instruction) || llvm::isa<llvm::BinaryOperator>(instruction));
}

bool used_outside(const llvm::Instruction &instruction, const llvm::Loop &loop) {
  for (const llvm::User *user : instruction.users()) {
    if (!loop.contains(llvm::cast<llvm::Instruction>(user))) return true;
  }
  return false;
}

void hoist_from(llvm::Loop &loop, llvm::Function &function,
                llvm::FunctionAnalysisManager &analyses) {
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  auto &target = analyses.getResult<llvm::TargetIRAnalysis>(function);
  llvm::BasicBlock *before = loop.getLoopPreheader();
  if (!before) return;
  std::vector<llvm::Instruction *> leaving;
  for (llvm::BasicBlock *block : loop.blocks()) {
    for (llvm::Instruction &instruction : *block) {
      if (is_counter(instruction) && used_outside(instruction, loop)) {
        leaving.push_back(&instruction);
      }
    }
  }
  llvm::SCEVExpander expander = expander_of(evolution, *function.getParent());
  for (llvm::Instruction *counter : leaving) {
    const llvm::SCEV *value = evolution.getSCEVAtScope(counter, loop.getParentLoop());
    llvm::Instruction *at = before->getTerminator();
    if (llvm::isa<llvm::SCEVCouldNotCompute>(value) || !evolution.isLoopInvariant(value, &loop) ||
        !expander.isSafeToExpandAt(value, at) ||
        !cheap(value, loop, evolution, expander, target, at)) {
      continue;
    }
    llvm::Value *sum = expander.expandCodeFor(value, counter->getType(), at);
    counter->replaceUsesWithIf(sum, [&](llvm::Use &use) {
      return !loop.contains(llvm::cast<llvm::Instruction>(use.getUser()));
    });
  }
  evolution.forgetAllLoops();
}

}  // namespace

void hoist_trip_counts(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  auto &dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  auto &assumptions = analyses.getResult<llvm::AssumptionAnalysis>(function);
  for (llvm::Loop *loop : loops) {
    llvm::simplifyLoop(loop, &dominators, &loops, &evolution, &assumptions, nullptr, false);
  }
  auto nest = loops.getLoopsInPreorder();
  for (auto loop = nest.rbegin(); loop != nest.rend(); ++loop) {
    hoist_from(**loop, function, analyses);
  }
}

}  // namespace clinst
