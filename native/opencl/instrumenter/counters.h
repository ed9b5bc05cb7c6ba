// Puts exact per-warp block counters into one kernel (docs/opencl-counters.md).
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/PassManager.h>

#include "request.h"

namespace clinst {

struct Instrumented {
  llvm::Function *function;  // takes the place of the kernel, which is gone
  Kernel kernel;
};

// `non_uniform`: the last work-group of a dimension may be smaller than the others.
Instrumented instrument(llvm::Function &kernel, llvm::FunctionAnalysisManager &analyses,
                        bool non_uniform);

}  // namespace clinst
