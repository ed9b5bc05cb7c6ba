// SPDX-License-Identifier: Apache-2.0
#include "signature.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Metadata.h>
#include <llvm/IR/Module.h>

#include "protocol/messages.hpp"
#include "versions.h"

namespace clinst {
namespace {

constexpr unsigned kGlobal = 1, kLocal = 3;  // address spaces of SPIR

struct ArgumentInfo {
  const char *key;
  const char *values[CLINST_EXTRA_ARGS];  // as strings; the address space as a digit
};

const ArgumentInfo kInfo[] = {
    {"kernel_arg_addr_space", {"1", "0", "3"}},
    {"kernel_arg_access_qual", {"none", "none", "none"}},
    {"kernel_arg_type", {"ulong*", "ulong", "ulong*"}},
    {"kernel_arg_base_type", {"ulong*", "ulong", "ulong*"}},
    {"kernel_arg_type_qual", {"", "", ""}},
    {"kernel_arg_name", {"xpuprof_counters", "xpuprof_first", "xpuprof_scratch"}},
};
constexpr int kPlain =
    1;  // our argument that is not a pointer; a kernel without scratch has the same type

void extend_metadata(llvm::Function &function, bool with_scratch) {
  llvm::LLVMContext &context = function.getContext();
  for (const ArgumentInfo &info : kInfo) {
    llvm::MDNode *old = function.getMetadata(info.key);
    if (!old) continue;
    llvm::SmallVector<llvm::Metadata *, 8> values(old->op_begin(), old->op_end());
    for (int i = 0; i < CLINST_EXTRA_ARGS; i++) {
      bool no_pointer = i == 2 && !with_scratch && info.key != llvm::StringRef("kernel_arg_name");
      const char *value = info.values[no_pointer ? kPlain : i];
      if (llvm::StringRef(info.key) == "kernel_arg_addr_space") {
        auto *number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value[0] - '0');
        values.push_back(llvm::ConstantAsMetadata::get(number));
      } else {
        values.push_back(llvm::MDString::get(context, value));
      }
    }
    function.setMetadata(info.key, llvm::MDNode::get(context, values));
  }
}

}  // namespace

llvm::Function *add_arguments(llvm::Function &kernel, bool with_scratch) {
  llvm::LLVMContext &context = kernel.getContext();
  auto *word = llvm::Type::getInt64Ty(context);
  llvm::SmallVector<llvm::Type *, 8> types(kernel.getFunctionType()->param_begin(),
                                           kernel.getFunctionType()->param_end());
  types.push_back(pointer_to(word, kGlobal));
  types.push_back(word);
  types.push_back(with_scratch ? static_cast<llvm::Type *>(pointer_to(word, kLocal)) : word);
  auto *type = llvm::FunctionType::get(kernel.getReturnType(), types, false);
  auto *function = llvm::Function::Create(type, kernel.getLinkage(), kernel.getAddressSpace());
  kernel.getParent()->getFunctionList().insert(kernel.getIterator(), function);
  function->copyAttributesFrom(&kernel);
  function->copyMetadata(&kernel, 0);
  function->takeName(&kernel);
#if LLVM_VERSION_MAJOR > 15
  function->splice(function->begin(), &kernel);
#else
  function->getBasicBlockList().splice(function->begin(), kernel.getBasicBlockList());
#endif
  auto *argument = function->arg_begin();
  for (llvm::Argument &old : kernel.args()) {
    argument->takeName(&old);
    old.replaceAllUsesWith(argument++);
  }
  for (llvm::Argument *pointer : {counters_argument(*function), scratch_argument(*function)}) {
    if (!pointer->getType()->isPointerTy()) continue;
    pointer->addAttr(llvm::Attribute::NoAlias);
    add_no_capture(*pointer);
  }
  counters_argument(*function)->setName("xpuprof_counters");
  first_argument(*function)->setName("xpuprof_first");
  scratch_argument(*function)->setName("xpuprof_scratch");
  extend_metadata(*function, with_scratch);
  kernel.eraseFromParent();
  return function;
}

}  // namespace clinst
