// SPDX-License-Identifier: Apache-2.0
// Static instruction mix of a block by the classes of xp_mix.
#pragma once

#include <llvm/IR/BasicBlock.h>

#include "protocol/messages.hpp"
#include "xpuprof/trace_format.h"

namespace clinst {

// PHI nodes are not counted: they disappear in register allocation. Debug, lifetime and assumption
// intrinsics are not counted either.
xpu_block count_instructions(const llvm::BasicBlock &block);

bool has_barrier(const llvm::BasicBlock &block);

// Name of an OpenCL built-in function: "_Z10atomic_addPU3AS1Vii" -> "atomic_add".
llvm::StringRef builtin_name(llvm::StringRef mangled);

}  // namespace clinst
