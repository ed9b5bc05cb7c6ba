// SPDX-License-Identifier: Apache-2.0
// Counters of loops whose trip count is known on entry become one addition before the loop.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/PassManager.h>

namespace clinst {

// Counters, and their PHI nodes from PromoteMemToReg, have this name.
constexpr const char *kCounterName = "xpuprof.count";

// The number of iterations is a cheap expression of values known before the loop.
bool trip_count_known(const llvm::Loop &loop, llvm::Function &function,
                      llvm::FunctionAnalysisManager &analyses);

// Replaces a counter's value after a loop by an expression before the loop wherever scalar
// evolution finds one, innermost loops first, so that nests collapse. Only values derived from
// counters are touched.
void hoist_trip_counts(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);

}  // namespace clinst
