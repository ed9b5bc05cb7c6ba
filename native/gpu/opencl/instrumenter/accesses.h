// SPDX-License-Identifier: Apache-2.0
// Recording of the accesses to global memory (docs/memory.md).
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <vector>

#include "protocol/messages.hpp"

namespace clinst {

// One access of an instruction: its pointer operand and number of bytes. Operands, not values:
// argument values change when our arguments are added.
struct Access {
  llvm::Instruction *at;
  unsigned pointer;
  unsigned width;
  unsigned stride = 0, index = 0;  // vload, vstore: operand `index` times `stride` is added
};

// A texel that a function reads or writes.
struct ImageAccess {
  llvm::CallInst *at;
  unsigned coordinates;  // the operand
  unsigned dimensions;
  bool normalized;
};

// async_work_group_copy and async_work_group_strided_copy: the side in global memory.
struct GroupCopy {
  llvm::CallInst *at;
  unsigned pointer;
  unsigned element;  // bytes
  bool strided;
};

struct Accesses {
  std::vector<Access> found;
  std::vector<ImageAccess> images;
  std::vector<GroupCopy> copies;   // their accesses are counted when the kernel runs
  std::vector<uint32_t> of_block;  // number except copies, by block
  uint32_t beyond = 0;             // instructions whose accesses cannot be recorded (pipes, ...)
};

enum Space { kGlobal = 1, kConstant = 2, kGeneric = 4 };  // address spaces of SPIR
unsigned space_of(const llvm::Value *pointer);
bool is_recorded(const llvm::Value *pointer);

// The accesses of the kernel's own code; call before counters are inserted.
Accesses find_accesses(llvm::Function &kernel);

// Adds the recording to the kernel with counters, and describes it in `result`.
void record_accesses(llvm::Function &function, const Accesses &accesses, bool non_uniform,
                     Kernel *result);

}  // namespace clinst
