// SPDX-License-Identifier: Apache-2.0
// Counters of 32 bits where more cannot be reached.
#pragma once

#include "analyses.h"
#include "exit.h"

namespace clinst {

// Computes 64-bit counters in 32 bits where the loops around their increments are known to end in
// time; their results stay 64 bits wide. Wide counters halve the width of a runtime's vectors over
// the work-items, and take twice the memory across barriers.
void narrow_counters(llvm::Function &function, std::vector<Slot> &slots,
                     llvm::FunctionAnalysisManager &analyses);

}  // namespace clinst
