// SPDX-License-Identifier: Apache-2.0
#include "built_ins.h"

#include <llvm/IR/Module.h>

#include <cstring>

namespace clinst {

using llvm::Value;

llvm::CallInst *call_built_in(llvm::IRBuilder<> &builder, const std::string &mangled,
                              llvm::Type *type, llvm::ArrayRef<Value *> arguments) {
  llvm::SmallVector<llvm::Type *, 2> types;
  for (Value *argument : arguments) types.push_back(argument->getType());
  auto callee = builder.GetInsertBlock()->getModule()->getOrInsertFunction(
      mangled, llvm::FunctionType::get(type, types, false));
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  function->setDoesNotThrow();
  auto *call = builder.CreateCall(callee, arguments);
  call->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  return call;
}

static Value *query(llvm::IRBuilder<> &builder, const char *name, const char *parameters,
                    llvm::Type *type, llvm::ArrayRef<Value *> arguments) {
  const std::string mangled = "_Z" + std::to_string(strlen(name)) + name + parameters;
  llvm::CallInst *result = call_built_in(builder, mangled, type, arguments);
  result->getCalledFunction()->setDoesNotAccessMemory();
  return builder.CreateZExt(result, builder.getInt64Ty());
}

// size_t is as wide as the program's pointers.
Value *query(llvm::IRBuilder<> &builder, const char *name, int dimension) {
  llvm::Module &module = *builder.GetInsertBlock()->getModule();
  auto *size = module.getDataLayout().getIntPtrType(module.getContext());
  return query(builder, name, "j", size, {builder.getInt32(dimension)});
}

Value *query(llvm::IRBuilder<> &builder, const char *name) {
  return query(builder, name, "v", builder.getInt32Ty(), {});
}

Value *linear(llvm::IRBuilder<> &b, const char *name, const char *size) {
  Value *yz = b.CreateAdd(query(b, name, 1), b.CreateMul(query(b, size, 1), query(b, name, 2)));
  return b.CreateAdd(query(b, name, 0), b.CreateMul(query(b, size, 0), yz));
}

Value *product(llvm::IRBuilder<> &b, const char *name) {
  return b.CreateMul(b.CreateMul(query(b, name, 0), query(b, name, 1)), query(b, name, 2));
}

}  // namespace clinst
