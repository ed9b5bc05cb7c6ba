// Recording of the accesses to global memory (docs/memory.md).
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <vector>

#include "request.h"

namespace clinst {

// One access that an instruction makes: where, and how many bytes.
struct Access {
  llvm::Instruction *at;
  llvm::Value *pointer;
  llvm::Value *index = nullptr;  // of vload and vstore: in units of `stride` bytes from the pointer
  unsigned width = 0, stride = 0;
};

struct Accesses {
  std::vector<Access> found;
  std::vector<uint32_t> of_block;  // how many, by block
  uint32_t beyond = 0;             // instructions whose accesses cannot be recorded (images, ...)
};

// What the kernel's own code accesses; call before counters go in.
Accesses find_accesses(llvm::Function &kernel);

// Puts the recording into the kernel with counters, and says in `result` what is recorded.
void record_accesses(llvm::Function &function, const Accesses &accesses, bool non_uniform,
                     Kernel *result);

}  // namespace clinst
