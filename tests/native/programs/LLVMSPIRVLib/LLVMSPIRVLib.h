// SPDX-License-Identifier: Apache-2.0
// What we use of the SPIRV-LLVM translator, for compiling with an LLVM whose translator is missing.
#pragma once

#include <llvm/IR/Module.h>

#include <cstdint>
#include <istream>
#include <map>
#include <ostream>
#include <string>

namespace SPIRV {

enum class VersionNumber : uint32_t { SPIRV_1_2 };
enum class BIsRepresentation : uint32_t { OpenCL12 };
enum class ExtensionID : uint32_t { SPV_INTEL_fp_fast_math_mode };

class TranslatorOpts {
 public:
  TranslatorOpts() = default;
  explicit TranslatorOpts(VersionNumber, const std::map<ExtensionID, bool> &extensions = {});
  void enableAllExtensions();
  void setDesiredBIsRepresentation(BIsRepresentation);
  void setSpecConst(uint32_t id, uint64_t value);
};

}  // namespace SPIRV

namespace llvm {

bool readSpirv(LLVMContext &, const SPIRV::TranslatorOpts &, std::istream &, Module *&,
               std::string &error);
bool writeSpirv(Module *, const SPIRV::TranslatorOpts &, std::ostream &, std::string &error);

}  // namespace llvm
