// SPDX-License-Identifier: Apache-2.0
// What LLVM changed between 15 and 22.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Argument.h>
#include <llvm/IR/DerivedTypes.h>

namespace clinst {

inline bool starts_with(llvm::StringRef text, llvm::StringRef with) {
  return text.take_front(with.size()) == with;
}

inline bool ends_with(llvm::StringRef text, llvm::StringRef with) {
  return text.take_back(with.size()) == with;
}

// Typed up to LLVM 16.
inline llvm::PointerType *pointer_to(llvm::Type *type, unsigned address_space) {
#if LLVM_VERSION_MAJOR < 17
  return llvm::PointerType::get(type, address_space);
#else
  return llvm::PointerType::get(type->getContext(), address_space);
#endif
}

inline void add_no_capture(llvm::Argument &argument) {
#if LLVM_VERSION_MAJOR < 21
  argument.addAttr(llvm::Attribute::NoCapture);
#else
  argument.addAttr(
      llvm::Attribute::getWithCaptureInfo(argument.getContext(), llvm::CaptureInfo::none()));
#endif
}

inline void remove_no_capture(llvm::Argument &argument) {
#if LLVM_VERSION_MAJOR < 21
  argument.removeAttr(llvm::Attribute::NoCapture);
#else
  argument.removeAttr(llvm::Attribute::Captures);
#endif
}

}  // namespace clinst
