// SPDX-License-Identifier: Apache-2.0
#include "narrow.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Support/MathExtras.h>

#include <limits>
#include <vector>

#include "loop_bounds.h"

namespace clinst {
namespace {

using llvm::Value;

// The merges and constant additions that a counter is made of, with their 32-bit counterparts.
using Web = llvm::MapVector<llvm::Instruction *, llvm::Instruction *>;

bool is_constant(const Value *value) { return llvm::isa<llvm::ConstantInt>(value); }

bool is_part(const llvm::Instruction *instruction) {
  if (llvm::isa<llvm::PHINode>(instruction)) return true;
  return instruction->getOpcode() == llvm::Instruction::Add &&
         is_constant(instruction->getOperand(1));
}

// Empty if the counter is computed in another way or used elsewhere.
Web web_of(Value *result) {
  Web web;
  std::vector<Value *> left{result};
  while (!left.empty()) {
    Value *value = left.back();
    left.pop_back();
    if (is_constant(value)) continue;
    auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (!instruction || !is_part(instruction)) return {};
    if (!web.insert({instruction, nullptr}).second) continue;
    left.insert(left.end(), instruction->op_begin(), instruction->op_end());
  }
  for (auto &part : web) {
    for (llvm::User *user : part.first->users()) {
      if (!web.count(llvm::cast<llvm::Instruction>(user))) return {};
    }
  }
  return web;
}

bool stays_narrow(const Web &web, const llvm::DominatorTree &dominators, llvm::LoopInfo &loops,
                  llvm::ScalarEvolution &evolution) {
  uint64_t sum = 0;
  for (const auto &part : web) {
    llvm::Instruction *instruction = part.first;
    for (Value *operand : instruction->operands()) {
      auto *constant = llvm::dyn_cast<llvm::ConstantInt>(operand);
      if (!constant) continue;
      uint64_t times = most_executions(instruction->getParent(), dominators, loops, evolution);
      if (llvm::isa<llvm::PHINode>(instruction)) times = 1;
      sum = llvm::SaturatingMultiplyAdd(constant->getZExtValue(), times, sum);
    }
  }
  return sum <= std::numeric_limits<uint32_t>::max();
}

// The counter's value, computed in 32 bits.
Value *narrowed(Web &web, Value *result) {
  llvm::Type *type = llvm::Type::getInt32Ty(result->getContext());
  auto of = [&](Value *value) -> Value * {
    if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value))
      return llvm::ConstantInt::get(type, constant->getZExtValue());
    return web.lookup(llvm::cast<llvm::Instruction>(value));
  };
  for (auto &part : web) {
    llvm::IRBuilder<> builder(part.first);
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(part.first)) {
      part.second = builder.CreatePHI(type, phi->getNumIncomingValues());
    } else {
      Value *later = llvm::PoisonValue::get(type);
      part.second =
          builder.Insert(llvm::BinaryOperator::CreateAdd(later, of(part.first->getOperand(1))));
    }
    part.second->takeName(part.first);
  }
  for (auto &part : web) {
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(part.first)) {
      for (unsigned i = 0; i < phi->getNumIncomingValues(); i++) {
        llvm::cast<llvm::PHINode>(part.second)
            ->addIncoming(of(phi->getIncomingValue(i)), phi->getIncomingBlock(i));
      }
    } else {
      part.second->setOperand(0, of(part.first->getOperand(0)));
    }
  }
  return of(result);
}

void erase(const Web &web) {
  for (const auto &part : web) {
    part.first->replaceAllUsesWith(llvm::PoisonValue::get(part.first->getType()));
  }
  for (const auto &part : web) part.first->eraseFromParent();
}

}  // namespace

void narrow_counters(llvm::Function &function, std::vector<Slot> &slots,
                     llvm::FunctionAnalysisManager &analyses) {
  llvm::ReturnInst *end = only_return(function);
  if (!end) return;
  auto &dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  if (!is_reducible(function, loops)) return;
  for (Slot &slot : slots) {
    if (slot.bits < 64) continue;
    Web web = web_of(slot.result);
    if (web.empty() || !stays_narrow(web, dominators, loops, evolution)) continue;
    Value *narrow = narrowed(web, slot.result);
    llvm::IRBuilder<> builder(end);
    slot.result = builder.CreateZExt(narrow, builder.getInt64Ty());
    erase(web);
  }
}

}  // namespace clinst
