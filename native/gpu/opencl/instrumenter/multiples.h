// SPDX-License-Identifier: Apache-2.0
// Counters that are a multiple of others, by a uniform factor: the back edge of a loop by its trip
// count, a branch whose condition depends on the launch alone by 1 or 0. They cost the work-items
// nothing: at the kernel's end the factor is applied to each warp's sums.
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
  std::vector<Term> of;  // counted counters, or earlier multiples
  // Uniform (uniform.h), 64 bits. It may be an argument, which add_arguments() replaces: the handle
  // then follows.
  llvm::WeakTrackingVH factor;
};

// Whether the edge is taken a uniform number of times per entry of its loop or execution of its
// block; for a branch, the first edge.
bool is_multiple(const Edge &edge, llvm::Function &function,
                 llvm::FunctionAnalysisManager &analyses);
// The other edge of such a branch: the count of the branch's block must be known without it.
bool is_rest(const Edge &edge);

// Finds the multiples among the plan's probes, which are edges of a graph whose blocks are numbered
// as in its derivation. Computes the factors in the kernel's first block.
std::vector<Multiple> find_multiples(llvm::Function &function, const std::vector<Edge> &edges,
                                     const std::vector<FlowEdge> &flow, const FlowPlan &plan,
                                     llvm::FunctionAnalysisManager &analyses);

}  // namespace clinst
