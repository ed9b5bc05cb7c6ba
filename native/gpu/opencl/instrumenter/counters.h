// SPDX-License-Identifier: Apache-2.0
// Adds exact per-warp block counters to one kernel (docs/opencl-counters.md).
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/PassManager.h>

#include "exit.h"
#include "protocol/messages.hpp"

namespace clinst {

struct Instrumented {
  llvm::Function *function;  // replaces the kernel, which is erased
  Kernel kernel;
};

Instrumented instrument(llvm::Function &kernel, llvm::FunctionAnalysisManager &analyses,
                        const Warps &warps);

}  // namespace clinst
