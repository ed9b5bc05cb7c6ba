// What the work-items of a warp do together at the end of the kernel.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <vector>

namespace clinst {

// Counters that are reduced between two barriers: local memory stays bounded whatever their number.
constexpr unsigned kScratchProbes = 8;

// At the kernel's one return: writes the launch's header, reduces the work-items' counters over
// each warp in local memory and stores one sum a counter and warp (clinst_protocol.h).
void write_counts(llvm::Function &function, const std::vector<llvm::AllocaInst *> &counters,
                  bool non_uniform);

}  // namespace clinst
