// SPDX-License-Identifier: Apache-2.0
// Calls of the device's built-in functions.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

namespace clinst {

llvm::CallInst *call_built_in(llvm::IRBuilder<> &builder, const std::string &mangled,
                              llvm::Type *type, llvm::ArrayRef<llvm::Value *> arguments);

// Work-item functions: for one dimension, as 64 bits ...
llvm::Value *query(llvm::IRBuilder<> &builder, const char *name, int dimension);
// ... without an argument, as 64 bits ...
llvm::Value *query(llvm::IRBuilder<> &builder, const char *name);
// ... and as one number over the three dimensions.
llvm::Value *linear(llvm::IRBuilder<> &builder, const char *name, const char *size);
llvm::Value *product(llvm::IRBuilder<> &builder, const char *name);

}  // namespace clinst
