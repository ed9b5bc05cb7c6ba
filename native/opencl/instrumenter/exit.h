// What the work-items of a warp do together at the end of the kernel.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <vector>

#include "request.h"

namespace clinst {

// Slots that are reduced between two barriers: local memory stays bounded whatever their number.
constexpr unsigned kScratchSlots = 8;

// A counter that a work-item raises at most once sums to at most CLINST_WARP over a warp: several
// fit into one word, and their sums do not run into each other.
constexpr unsigned kFieldBits = 6;
static_assert(CLINST_WARP < 1 << kFieldBits);

// A private variable that holds one counter of 64 bits, or fields of kFieldBits in 8 to 32 bits.
struct Slot {
  llvm::AllocaInst *value;
  unsigned bits;
  std::vector<uint32_t> probes;  // one a field, the first in the lowest bits
};

// At the kernel's one return: writes the launch's header, reduces the work-items' slots over each
// warp in local memory and stores one sum a probe and warp (clinst_protocol.h).
void write_counts(llvm::Function &function, const std::vector<Slot> &slots, uint32_t n_probes,
                  bool non_uniform);

}  // namespace clinst
