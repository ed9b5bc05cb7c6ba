// SPDX-License-Identifier: Apache-2.0
// Members of llvm::StringRef whose names LLVM changed between 15 and 19.
#pragma once

#include <llvm/ADT/StringRef.h>

namespace clinst {

inline bool starts_with(llvm::StringRef text, llvm::StringRef with) {
  return text.take_front(with.size()) == with;
}

inline bool ends_with(llvm::StringRef text, llvm::StringRef with) {
  return text.take_back(with.size()) == with;
}

}  // namespace clinst
