// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Verifier.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "accesses.h"
#include "analyses.h"
#include "backend.h"
#include "counters.h"
#include "frontend.h"
#include "pocl.h"
#include "prepare.h"

namespace clinst {
namespace {

constexpr uint64_t spirv_opencl_c = 3;  // SourceLanguage

// Whether the whole program states an OpenCL C version before 2.0, which has no non-uniform groups:
// a runtime then lacks the functions that distinguish them.
bool is_before_2_0(const llvm::Module &module) {
  const llvm::NamedMDNode *versions = module.getNamedMetadata("opencl.ocl.version");
  if (!versions || versions->getNumOperands() == 0) return false;
  auto number = [](const llvm::MDNode *of, unsigned index) {
    return llvm::mdconst::extract<llvm::ConstantInt>(of->getOperand(index))->getZExtValue();
  };
  if (const llvm::NamedMDNode *sources = module.getNamedMetadata("spirv.Source"))
    for (const llvm::MDNode *source : sources->operands())
      if (number(source, 0) != spirv_opencl_c) return false;
  for (const llvm::MDNode *version : versions->operands())
    if (number(version, 0) >= 2) return false;
  return true;
}

bool may_be_non_uniform(const Request &request, const llvm::Module &module) {
  // PoCL, which accepts bitcode, has no such groups.
  return !is_for_pocl(request) && !is_before_2_0(module);
}

// Sizes by kernel if the device's sub-groups are the warps: "kernel:size kernel:size ...".
std::map<std::string, unsigned> sub_group_sizes(const Request &request) {
  std::map<std::string, unsigned> sizes;
  auto found = request.device.find("sub_group_sizes");
  if (found == request.device.end()) return sizes;
  std::istringstream words(found->second);
  for (std::string word; words >> word;) {
    size_t colon = word.rfind(':');
    if (colon == std::string::npos) continue;
    sizes[word.substr(0, colon)] = std::strtoul(word.c_str() + colon + 1, nullptr, 10);
  }
  return sizes;
}

bool uses_sub_groups(const llvm::Function &kernel) {
  for (const llvm::Instruction &instruction : llvm::instructions(kernel)) {
    auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    const llvm::Function *callee = call ? call->getCalledFunction() : nullptr;
    if (!callee) continue;
    std::string name = callee->getName().lower();
    if (name.find("sub_group") != name.npos || name.find("subgroup") != name.npos) return true;
  }
  return false;
}

constexpr const char *kSubGroupSize = "intel_reqd_sub_group_size";

Warps warps_of(const llvm::Function &kernel, const Request &request,
               const std::map<std::string, unsigned> &sizes) {
  Warps warps;
  warps.pocl = is_for_pocl(request);
  warps.non_uniform = may_be_non_uniform(request, *kernel.getParent());
  if (auto size = sizes.find(kernel.getName().str()); size != sizes.end()) {
    warps.size = std::min<unsigned>(std::max(1u, size->second), CLINST_MAX_SUB_GROUP);
    warps.sub_groups = true;
    warps.reduce = uses_sub_groups(kernel);
    // Seen on Intel's CPU runtime, of which `contracts` is a sign.
    warps.scalar = request.device.count("contracts") && warps.size == CLINST_MAX_SUB_GROUP &&
                   !warps.reduce && !kernel.getMetadata(kSubGroupSize);
  }
  if (auto words = request.device.find("local_words"); words != request.device.end()) {
    unsigned most = std::strtoul(words->second.c_str(), nullptr, 10);
    warps.local_words = std::min(warps.local_words, most);
  }
  if (auto most = request.device.find("most_in_registers"); most != request.device.end())
    warps.most_in_registers = std::strtoul(most->second.c_str(), nullptr, 10);
  return warps;
}

// The size of the program's own kernel. A kernel that uses sub-groups must see it; for others the
// counters would lead a vectorising runtime to a different, usually slower size. A scalar kernel
// would be vectorised for the size that it states; with size 1 it is not.
void require_sub_group_size(llvm::Function &kernel, const Warps &warps) {
  if (kernel.getMetadata(kSubGroupSize)) return;  // the program's own requirement
  auto *word = llvm::Type::getInt32Ty(kernel.getContext());
  auto *size = llvm::ConstantInt::get(word, warps.scalar ? 1 : warps.size);
  auto *value = llvm::ConstantAsMetadata::get(size);
  kernel.setMetadata(kSubGroupSize, llvm::MDNode::get(kernel.getContext(), value));
}

}  // namespace

Response compile(const Request &request) {
  llvm::LLVMContext context;
#if LLVM_VERSION_MAJOR < 17
  context.setOpaquePointers(false);  // the translator needs typed pointers
#endif
  Program program = load_program(context, request);
  Response result;
  result.included = std::move(program.included);

  Analyses analyses;
  llvm::FunctionAnalysisManager &functions = analyses.functions;
  llvm::FunctionPassManager cleanup;
  llvm::cantFail(analyses.builder.parsePassPipeline(cleanup, "adce"));

  const std::map<std::string, unsigned> sizes = sub_group_sizes(request);
  for (llvm::Function *kernel : prepare(*program.module)) {
    Warps warps = warps_of(*kernel, request, sizes);
    bool memory = request.flags & CLINST_MEMORY;
    Accesses accesses = memory ? find_accesses(*kernel) : Accesses();
    Instrumented made = instrument(*kernel, functions, warps);
    if (memory) record_accesses(*made.function, accesses, warps.non_uniform, &made.kernel);
    if (warps.sub_groups && warps.size > 1) require_sub_group_size(*made.function, warps);
    functions.invalidate(*made.function, llvm::PreservedAnalyses::none());
    cleanup.run(*made.function, functions);
    functions.clear(*made.function, made.function->getName());
    result.kernels.push_back(std::move(made.kernel));
  }
  if (is_for_pocl(request)) adapt_to_pocl(*program.module, functions);
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (llvm::verifyModule(*program.module, &stream)) {
    throw Failure("the counters broke the program (please report): " +
                  error.substr(0, error.find('\n')));
  }
  result.module = request.output == CLINST_TO_SPIRV
                      ? to_spirv(*program.module, request.device.count("contracts"))
                      : to_bitcode(*program.module);
  return result;
}

}  // namespace clinst
