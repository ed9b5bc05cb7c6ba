// SPDX-License-Identifier: Apache-2.0
#include "pointees.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Metadata.h>

#include "versions.h"

namespace clinst {
namespace {

struct Scalar {
  const char *name;
  unsigned bytes;
};

constexpr Scalar scalars[] = {
    {"bool", 1},         {"char", 1}, {"signed char", 1},    {"unsigned char", 1},
    {"short", 2},        {"half", 2}, {"unsigned short", 2}, {"int", 4},
    {"unsigned int", 4}, {"long", 8}, {"unsigned long", 8},  {"float", 4},
    {"double", 8},
};

}  // namespace

llvm::StringRef declared_type(const llvm::Argument &argument) {
  const llvm::MDNode *types = argument.getParent()->getMetadata("kernel_arg_base_type");
  if (!types || argument.getArgNo() >= types->getNumOperands()) return "";
  return llvm::cast<llvm::MDString>(types->getOperand(argument.getArgNo()))->getString();
}

Pointee pointee_of(llvm::StringRef mangled, unsigned parameter) {
  // "fract(float vector[4], float vector[4] AS1*)"
  const std::string readable = llvm::demangle(mangled.str());
  llvm::SmallVector<llvm::StringRef, 4> types;
  llvm::StringRef(readable).split('(').second.rsplit(')').first.split(types, ", ");
  Pointee pointee;
  if (parameter >= types.size() || !ends_with(types[parameter], "*")) return pointee;
  llvm::StringRef type = types[parameter];
  for (const Scalar &scalar : scalars) {
    llvm::StringRef rest = type;
    if (rest.consume_front(scalar.name) && (rest[0] == ' ' || rest[0] == '*')) {
      pointee.bytes = scalar.bytes;
      if (rest.consume_front(" vector[")) rest.consumeInteger(10, pointee.elements);
    }
  }
  return pointee;
}

bool is_image(const llvm::Argument &argument) {
  return starts_with(declared_type(argument), "image");
}

bool is_buffer(const llvm::Argument &argument) {
  llvm::StringRef type = declared_type(argument);
  return argument.getType()->isPointerTy() && (type.empty() || ends_with(type, "*"));
}

}  // namespace clinst
