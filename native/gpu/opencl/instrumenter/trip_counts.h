// SPDX-License-Identifier: Apache-2.0
// Counters of loops whose trip count is known on entry become one addition before the loop.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>

#include <vector>

namespace clinst {

// Counters, and their PHI nodes from PromoteMemToReg, have this name.
constexpr const char *kCounterName = "xpuprof.count";

// While it lives, built-in functions are known to return: scalar evolution relies on what holds in
// the next iteration (no signed overflow) only if nothing in a loop can leave it, a barrier for
// instance. The program's code is to be compiled without this.
class BuiltInsReturn {
 public:
  explicit BuiltInsReturn(llvm::Module &module);
  ~BuiltInsReturn();
  BuiltInsReturn(const BuiltInsReturn &) = delete;
  BuiltInsReturn &operator=(const BuiltInsReturn &) = delete;

 private:
  std::vector<std::pair<llvm::Function *, llvm::Attribute::AttrKind>> added_;
};

// The number of iterations is a cheap expression of values known before the loop.
bool trip_count_known(const llvm::Loop &loop, llvm::Function &function,
                      llvm::FunctionAnalysisManager &analyses);

// Replaces a counter's value after a loop by an expression before the loop wherever scalar
// evolution finds one, innermost loops first, so that nests collapse. Only values derived from
// counters are touched.
void hoist_trip_counts(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);

}  // namespace clinst
