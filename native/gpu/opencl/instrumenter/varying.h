// SPDX-License-Identifier: Apache-2.0
// Counters and kernel bodies that a runtime has to take as different for each work-item.
#pragma once

#include <vector>

#include "exit.h"

namespace clinst {

// PoCL keeps a variable across a barrier for each work-item only if it finds that it varies. It
// looks at the values and the branches before a loop, not at the one by which the loop is left: the
// turns of `for (i = n; i > 0; i -= id)`, counted from 0 by 1, are the same for all. Intel's
// compiler keeps one value per vector of work-items where a loop lies under a condition in a loop.
// So counters start at a zero that depends on the work-item's id.
void make_varying(llvm::Function &function, const std::vector<Slot> &slots);

// A barrier at the end lets PoCL put others into loops that it takes to be the same for all
// work-items. Its loops over the work-items then lie in the kernel's, which costs time, and where
// it is mistaken the kernel's results are wrong. So a kernel without barriers of its own runs under
// a condition of which PoCL knows only when it has made its loops that it always holds.
void make_body_varying(llvm::Function &function, std::vector<Slot> &slots);

}  // namespace clinst
