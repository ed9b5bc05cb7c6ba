// SPDX-License-Identifier: Apache-2.0
// What the pointers of OpenCL refer to, which LLVM's own pointers do not tell.
#pragma once

#include <llvm/IR/Argument.h>

namespace clinst {

// `elements` scalars of `bytes` each.
struct Pointee {
  unsigned bytes = 0;  // 0: not a pointer to numbers
  unsigned elements = 1;
};

// Of a built-in function's parameter: ("_Z5fractDv4_fPU3AS1S_", 1) -> 4 floats.
Pointee pointee_of(llvm::StringRef mangled, unsigned parameter);

// The type that the kernel's source gives the argument; empty if the module does not tell.
llvm::StringRef declared_type(const llvm::Argument &argument);

// Whether a kernel's argument is an image, or a pointer to numbers or structures.
bool is_image(const llvm::Argument &argument);
bool is_buffer(const llvm::Argument &argument);

}  // namespace clinst
