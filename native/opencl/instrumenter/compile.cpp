#include "compile.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>

#include "accesses.h"
#include "backend.h"
#include "counters.h"
#include "frontend.h"
#include "pocl.h"
#include "prepare.h"

namespace clinst {
namespace {

bool may_be_non_uniform(const Request &request) {
  // PoCL, which takes bitcode, has no such groups.
  if (request.output == CLINST_TO_BITCODE) return false;
  for (const Part &part : request.parts) {
    if (part.input != CLINST_SOURCE || language_version(request, part) >= 200) return true;
  }
  return false;
}

}  // namespace

Compiled compile(const Request &request) {
  llvm::LLVMContext context;
  context.setOpaquePointers(false);  // the translator of LLVM 15 needs typed ones
  Program program = load_program(context, request);
  Compiled result;
  result.included = std::move(program.included);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::FunctionPassManager cleanup;
  llvm::cantFail(builder.parsePassPipeline(cleanup, "adce"));

  for (llvm::Function *kernel : prepare(*program.module)) {
    bool non_uniform = may_be_non_uniform(request), memory = request.flags & CLINST_MEMORY;
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
