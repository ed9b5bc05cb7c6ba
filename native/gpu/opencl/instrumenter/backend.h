// SPDX-License-Identifier: Apache-2.0
// Instrumented module -> bytes that a runtime accepts.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

namespace clinst {

std::string to_bitcode(llvm::Module &module);
// `contracts`: SPV_INTEL_fp_fast_math_mode may be used. Throws Failure.
std::string to_spirv(llvm::Module &module, bool contracts);

}  // namespace clinst
