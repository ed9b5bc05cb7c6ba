// SPDX-License-Identifier: Apache-2.0
// Counters that are a multiple of others, by a factor that is the same for all work-items: the back
// edge of a loop by its trip count, a branch whose condition hangs on the launch alone by 1 or 0.
// They cost the work-items nothing: at the kernel's end the factor is applied to each warp's sums.
#pragma once

#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/ValueHandle.h>

#include <vector>

#include "flow.h"

namespace clinst {

struct Edge {
  llvm::BasicBlock *from, *to;
};

struct Multiple {
  uint32_t probe;
  std::vector<Term> of;  // counters that are counted, or multiples that stand before this one
  // Uniform (uniform.h), 64 bits. It may be an argument itself, which add_arguments() replaces: the
  // handle then follows.
  llvm::WeakTrackingVH factor;
};

// Whether the edge is taken a uniform number of times, each time that its loop is entered or its
// block is left; of a branch the first edge.
bool is_multiple(const Edge &edge, llvm::Function &function,
                 llvm::FunctionAnalysisManager &analyses);
// The other edge of such a branch: the branch's block must be known without it.
bool is_rest(const Edge &edge);

// Of the plan's probes, which are edges of a graph whose blocks are numbered as in its derivation.
// Puts the factors into the kernel's first block.
std::vector<Multiple> find_multiples(llvm::Function &function, const std::vector<Edge> &edges,
                                     const std::vector<FlowEdge> &flow, const FlowPlan &plan,
                                     llvm::FunctionAnalysisManager &analyses);

}  // namespace clinst
