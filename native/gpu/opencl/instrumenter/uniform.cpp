// SPDX-License-Identifier: Apache-2.0
#include "uniform.h"

#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Argument.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <set>

#include "mix.h"

namespace clinst {
namespace {

using llvm::Value;

constexpr unsigned kBudget = 24;  // instructions

bool is_number(const llvm::Type *type) {
  return type->isIntegerTy() && type->getIntegerBitWidth() <= 64;
}

bool is_width(const llvm::Type *type) {  // of SPIR-V
  unsigned bits = type->getIntegerBitWidth();
  return bits >= 8 && bits <= 64 && llvm::isPowerOf2_32(bits);
}

bool is_query(const llvm::CallBase &call) {
  static const std::set<llvm::StringRef> names = {
      "get_group_id",   "get_global_size",         "get_local_size",
      "get_num_groups", "get_enqueued_local_size", "get_global_offset"};
  const llvm::Function *callee = call.getCalledFunction();
  return callee && callee->isDeclaration() && call.arg_size() == 1 &&
         llvm::isa<llvm::ConstantInt>(call.getArgOperand(0)) &&
         names.count(builtin_name(callee->getName()));
}

// Neither traps nor, for defined operands, has an undefined result.
bool is_plain(const llvm::Instruction &instruction) {
  using llvm::Instruction;
  switch (instruction.getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
    case Instruction::Mul:
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::Trunc:
    case Instruction::ZExt:
    case Instruction::SExt:
    case Instruction::ICmp:
    case Instruction::Select:
    case Instruction::Freeze:
      return true;
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr: {
      auto *by = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(1));
      return by && by->getValue().ult(by->getType()->getIntegerBitWidth());
    }
    default:
      return llvm::isa<llvm::MinMaxIntrinsic>(instruction);
  }
}

bool is_uniform(const Value *value, unsigned *budget) {
  if (!is_number(value->getType())) return false;
  if (llvm::isa<llvm::ConstantInt>(value)) return true;
  // Arguments have whole bytes: other widths do not come from the program.
  if (llvm::isa<llvm::Argument>(value)) return value->getType()->getIntegerBitWidth() >= 8;
  auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (!instruction || (*budget)-- == 0) return false;
  if (auto *call = llvm::dyn_cast<llvm::CallBase>(instruction); call && is_query(*call)) {
    return true;
  }
  if (!is_plain(*instruction)) {
    *budget = 0;
    return false;
  }
  for (const Value *operand : instruction->operands()) {
    if (llvm::isa<llvm::Function>(operand)) continue;  // the callee of an intrinsic
    if (*budget == 0 || !is_uniform(operand, budget)) return false;
  }
  return true;
}

class Emitter : public llvm::SCEVVisitor<Emitter, Value *> {
 public:
  explicit Emitter(llvm::IRBuilder<> &builder) : b_(builder) {}

  Value *visitConstant(const llvm::SCEVConstant *one) { return one->getValue(); }
  Value *visitUnknown(const llvm::SCEVUnknown *one) { return compute(one->getValue(), b_); }
  // Truncation to a width that SPIR-V lacks: the removed bits become zero (only zero extensions
  // follow).
  Value *visitTruncateExpr(const llvm::SCEVTruncateExpr *one) {
    Value *whole = visit(one->getOperand());
    if (is_width(one->getType())) return b_.CreateTrunc(whole, one->getType());
    unsigned bits = whole->getType()->getIntegerBitWidth();
    unsigned kept = one->getType()->getIntegerBitWidth();
    return b_.CreateAnd(whole, b_.getInt(llvm::APInt::getLowBitsSet(bits, kept)));
  }
  Value *visitZeroExtendExpr(const llvm::SCEVZeroExtendExpr *one) {
    return b_.CreateZExtOrTrunc(visit(one->getOperand()), one->getType());
  }
  Value *visitUDivExpr(const llvm::SCEVUDivExpr *one) {
    return b_.CreateUDiv(visit(one->getLHS()), visit(one->getRHS()));
  }
  Value *visitSignExtendExpr(const llvm::SCEVSignExtendExpr *one) {
    return b_.CreateSExt(visit(one->getOperand()), one->getType());
  }
  Value *visitAddExpr(const llvm::SCEVAddExpr *all) {
    return fold(all, [&](Value *a, Value *b) { return b_.CreateAdd(a, b); });
  }
  Value *visitMulExpr(const llvm::SCEVMulExpr *all) {
    return fold(all, [&](Value *a, Value *b) { return b_.CreateMul(a, b); });
  }
  Value *visitSMaxExpr(const llvm::SCEVSMaxExpr *all) {
    return extreme(all, llvm::CmpInst::ICMP_SGT);
  }
  Value *visitUMaxExpr(const llvm::SCEVUMaxExpr *all) {
    return extreme(all, llvm::CmpInst::ICMP_UGT);
  }
  Value *visitSMinExpr(const llvm::SCEVSMinExpr *all) {
    return extreme(all, llvm::CmpInst::ICMP_SLT);
  }
  Value *visitUMinExpr(const llvm::SCEVUMinExpr *all) {
    return extreme(all, llvm::CmpInst::ICMP_ULT);
  }
  // Never uniform here.
  Value *visitPtrToIntExpr(const llvm::SCEVPtrToIntExpr *) { return nullptr; }
  Value *visitAddRecExpr(const llvm::SCEVAddRecExpr *) { return nullptr; }
  Value *visitSequentialUMinExpr(const llvm::SCEVSequentialUMinExpr *) { return nullptr; }
#if LLVM_VERSION_MAJOR >= 18
  Value *visitVScale(const llvm::SCEVVScale *) { return nullptr; }
#endif
  Value *visitCouldNotCompute(const llvm::SCEVCouldNotCompute *) { return nullptr; }

 private:
  template <class Step>
  Value *fold(const llvm::SCEVNAryExpr *all, Step &&step) {
    Value *result = visit(all->getOperand(0));
    for (size_t i = 1; i < all->getNumOperands(); i++) {
      result = step(result, visit(all->getOperand(i)));
    }
    return result;
  }
  Value *extreme(const llvm::SCEVNAryExpr *all, llvm::CmpInst::Predicate better) {
    return fold(all, [&](Value *a, Value *b) {
      return b_.CreateSelect(b_.CreateICmp(better, a, b), a, b);
    });
  }

  llvm::IRBuilder<> &b_;
};

}  // namespace

bool is_uniform(const Value *value) {
  unsigned budget = kBudget;
  return is_uniform(value, &budget);
}

static bool is_uniform_part(const llvm::SCEV *part) {
  if (!part->getType()->isIntegerTy()) return false;
  switch (part->getSCEVType()) {
    case llvm::scTruncate:
      return true;
    case llvm::scSignExtend:
      return is_width(llvm::cast<llvm::SCEVCastExpr>(part)->getOperand()->getType());
    case llvm::scUnknown:
      return is_width(part->getType()) &&
             is_uniform(llvm::cast<llvm::SCEVUnknown>(part)->getValue());
    case llvm::scUDivExpr: {
      const llvm::SCEV *by = llvm::cast<llvm::SCEVUDivExpr>(part)->getRHS();
      return is_width(part->getType()) && llvm::isa<llvm::SCEVConstant>(by) && !by->isZero();
    }
    case llvm::scConstant:
    case llvm::scZeroExtend:
    case llvm::scAddExpr:
    case llvm::scMulExpr:
    case llvm::scSMaxExpr:
    case llvm::scUMaxExpr:
    case llvm::scSMinExpr:
    case llvm::scUMinExpr:
      return is_width(part->getType());
    default:
      return false;
  }
}

bool is_uniform(const llvm::SCEV *value) {
  unsigned parts = 0;
  return !llvm::SCEVExprContains(
      value, [&](const llvm::SCEV *part) { return ++parts > kBudget || !is_uniform_part(part); });
}

Value *compute(Value *value, llvm::IRBuilder<> &builder) {
  auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (!instruction) return value;
  if (llvm::isa<llvm::FreezeInst>(instruction)) return compute(instruction->getOperand(0), builder);
  llvm::SmallVector<Value *, 3> operands;
  for (Value *operand : instruction->operands()) operands.push_back(compute(operand, builder));
  llvm::Instruction *copy = instruction->clone();
  for (unsigned i = 0; i < operands.size(); i++) copy->setOperand(i, operands[i]);
  // These flags may have held only under a condition.
  copy->dropPoisonGeneratingFlags();
  return builder.Insert(copy);
}

Value *compute(const llvm::SCEV *value, llvm::IRBuilder<> &builder) {
  return Emitter(builder).visit(value);
}

}  // namespace clinst
