// SPDX-License-Identifier: Apache-2.0
// The joint work of a warp's work-items at the end of the kernel.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <optional>
#include <vector>

#include "multiples.h"
#include "protocol/messages.hpp"

namespace clinst {

// The partition of work-items into warps.
struct Warps {
  unsigned size = CLINST_WARP;
  bool sub_groups = false;  // cut from the rows of a group, else from the whole group
  bool reduce = false;      // by the device, if the kernel itself uses sub-groups
  // The device executes the kernel one work-item at a time: Intel's CPU runtime then states the
  // largest size, while its compiler by itself vectorises for 4 to 16 work-items.
  bool scalar = false;
  // Slots reduced between two barriers: local memory stays bounded whatever their number. 0: no
  // local memory; every work-item adds to the counters of its warp.
  unsigned local_words = 8;
  // A kernel with more probes counts in memory (in_memory.h). Nothing: none does.
  std::optional<unsigned> most_in_registers;
  bool pocl = false;         // the device's runtime is PoCL
  bool non_uniform = false;  // the last work-group of a dimension may be smaller than the others

  // A counter that a work-item increments at most once sums to at most the warp's size: several fit
  // into one word without their sums overlapping.
  unsigned field_bits() const { return size < 64 ? 6 : 7; }
};
static_assert(CLINST_WARP < 1 << 6 && CLINST_MAX_SUB_GROUP < 1 << 7);

// A private variable that holds one counter of 64 bits, or fields of Warps::field_bits in 8 to 32
// bits.
struct Slot {
  llvm::AllocaInst *value;
  unsigned bits;
  std::vector<uint32_t> probes;   // one per field, the first in the lowest bits
  bool varies = false;            // it has to differ between work-items (varying.h)
  llvm::Value *result = nullptr;  // its value at the kernel's return
};

// NULL: the kernel never ends.
llvm::ReturnInst *only_return(llvm::Function &function);

// At the kernel's one return: writes the launch's header, reduces the work-items' slots over each
// warp, as sub-group, in local memory or by atomic additions, and stores one sum per probe and warp
// (clinst_protocol.h); the sums of the multiples, which have no slots, are computed from the
// others.
void write_counts(llvm::Function &function, const std::vector<Slot> &slots,
                  const std::vector<Multiple> &multiples, uint32_t n_probes, const Warps &warps);

}  // namespace clinst
