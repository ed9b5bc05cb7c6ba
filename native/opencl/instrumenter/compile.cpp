#include "compile.h"

#include <llvm/IR/Verifier.h>

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

// Whether all of the program says that it is in an OpenCL C before 2.0, which has no groups of
// several sizes: a runtime then lacks the functions that tell them apart.
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
  // PoCL, which takes bitcode, has no such groups.
  return request.output != CLINST_TO_BITCODE && !is_before_2_0(module);
}

}  // namespace

Compiled compile(const Request &request) {
  llvm::LLVMContext context;
  context.setOpaquePointers(false);  // the translator of LLVM 15 needs typed ones
  Program program = load_program(context, request);
  Compiled result;
  result.included = std::move(program.included);

  Analyses analyses;
  llvm::FunctionAnalysisManager &functions = analyses.functions;
  llvm::FunctionPassManager cleanup;
  llvm::cantFail(analyses.builder.parsePassPipeline(cleanup, "adce"));

  for (llvm::Function *kernel : prepare(*program.module)) {
    bool non_uniform = may_be_non_uniform(request, *program.module),
         memory = request.flags & CLINST_MEMORY;
    Accesses accesses = memory ? find_accesses(*kernel) : Accesses();
    Instrumented made = instrument(*kernel, functions, non_uniform);
    if (memory) record_accesses(*made.function, accesses, non_uniform, &made.kernel);
    functions.invalidate(*made.function, llvm::PreservedAnalyses::none());
    cleanup.run(*made.function, functions);
    functions.clear(*made.function, made.function->getName());
    result.response.kernels.push_back(std::move(made.kernel));
  }
  if (request.output == CLINST_TO_BITCODE) adapt_to_pocl(*program.module, functions);
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (llvm::verifyModule(*program.module, &stream)) {
    throw Failure("the counters broke the program (please report): " +
                  error.substr(0, error.find('\n')));
  }
  result.response.module =
      request.output == CLINST_TO_SPIRV ? to_spirv(*program.module) : to_bitcode(*program.module);
  return result;
}

}  // namespace clinst
