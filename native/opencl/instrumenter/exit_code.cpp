#include "exit_code.h"

#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "signature.h"

namespace clinst {

using llvm::Value;

llvm::CallInst *ExitCode::call(const std::string &mangled, llvm::Type *type,
                               llvm::ArrayRef<Value *> arguments, bool together) {
  llvm::SmallVector<llvm::Type *, 2> types;
  for (Value *argument : arguments) types.push_back(argument->getType());
  auto callee = function_.getParent()->getOrInsertFunction(
      mangled, llvm::FunctionType::get(type, types, false));
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  function->setDoesNotThrow();
  auto *call = b_.CreateCall(callee, arguments);
  call->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  if (together) {
    function->setConvergent();
    call->setConvergent();
  }
  return call;
}

// size_t is as wide as a pointer of the program.
Value *ExitCode::query(const char *name, int dimension) {
  llvm::Module &module = *function_.getParent();
  auto *size = module.getDataLayout().getIntPtrType(module.getContext());
  std::string mangled = "_Z" + std::to_string(strlen(name)) + name + "j";
  llvm::CallInst *result = call(mangled, size, {b_.getInt32(dimension)});
  result->getCalledFunction()->setDoesNotAccessMemory();
  return b_.CreateZExt(result, b_.getInt64Ty());
}

Value *ExitCode::query(const char *name) {
  std::string mangled = "_Z" + std::to_string(strlen(name)) + name + "v";
  llvm::CallInst *result = call(mangled, b_.getInt32Ty(), {});
  result->getCalledFunction()->setDoesNotAccessMemory();
  return b_.CreateZExt(result, b_.getInt64Ty());
}

Value *ExitCode::linear(const char *name, const char *size) {
  Value *yz = b_.CreateAdd(query(name, 1), b_.CreateMul(query(size, 1), query(name, 2)));
  return b_.CreateAdd(query(name, 0), b_.CreateMul(query(size, 0), yz));
}

Value *ExitCode::product(const char *name) {
  return b_.CreateMul(b_.CreateMul(query(name, 0), query(name, 1)), query(name, 2));
}

void ExitCode::when(Value *condition, const std::function<void()> &body) {
  llvm::Instruction *after = &*b_.GetInsertPoint();
  llvm::Instruction *then = llvm::SplitBlockAndInsertIfThen(condition, after, false);
  b_.SetInsertPoint(then);
  body();
  b_.SetInsertPoint(after);
}

void ExitCode::loop(Value *from, Value *to, const std::function<void(llvm::PHINode *)> &body) {
  llvm::Instruction *after = &*b_.GetInsertPoint();
  llvm::BasicBlock *before = after->getParent();
  llvm::BasicBlock *tail = llvm::SplitBlock(before, after);
  auto *inside = llvm::BasicBlock::Create(b_.getContext(), "each", &function_, tail);
  llvm::cast<llvm::BranchInst>(before->getTerminator())->setSuccessor(0, inside);
  b_.SetInsertPoint(inside);
  llvm::PHINode *i = b_.CreatePHI(b_.getInt64Ty(), 2);
  llvm::Instruction *end = b_.CreateUnreachable();  // until the body has its blocks
  b_.SetInsertPoint(end);
  body(i);
  b_.SetInsertPoint(end);
  Value *next = b_.CreateAdd(i, number(1), "", true, true);
  llvm::BasicBlock *last = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpULT(next, to), inside, tail);
  end->eraseFromParent();
  i->addIncoming(from, before);
  i->addIncoming(next, last);
  b_.SetInsertPoint(after);
}

void ExitCode::store_counter(Value *index, Value *value) {
  Value *at = b_.CreateAdd(first_argument(function_), index);
  b_.CreateStore(value, b_.CreateGEP(b_.getInt64Ty(), counters_argument(function_), at));
}

void ExitCode::store_fields(const Slot &slot, Value *base, Value *sum) {
  unsigned bits = warps_.field_bits();
  for (size_t field = 0; field < slot.probes.size(); field++) {
    Value *count = sum;
    if (slot.bits < 64) {
      count = b_.CreateAnd(b_.CreateLShr(sum, number(field * bits)), number((1u << bits) - 1));
    }
    store_counter(b_.CreateAdd(base, number(slot.probes[field])), count);
  }
}

void ExitCode::header(Value *warp_size, Value *warps_a_group) {
  Value *group = linear("get_group_id", "get_num_groups");
  when(b_.CreateICmpEQ(group, number(0)), [&] {
    const char *size = warps_.non_uniform ? "get_enqueued_local_size" : "get_local_size";
    for (int d = 0; d < 3; d++) {
      store_counter(number(d), query(size, d));
      store_counter(number(3 + d), query("get_num_groups", d));
    }
    store_counter(number(6), warp_size);
    store_counter(number(7), warps_a_group);
  });
}

}  // namespace clinst
