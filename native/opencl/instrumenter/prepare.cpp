#include "prepare.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "request.h"

namespace clinst {
namespace {

bool is_kernel(const llvm::Function &function) {
  return function.getCallingConv() == llvm::CallingConv::SPIR_KERNEL && !function.isDeclaration();
}

// A kernel that other kernels call lives on as an ordinary function for them: as a kernel it gets
// arguments that they do not have.
void split_called_kernels(llvm::Module &module) {
  std::vector<llvm::Function *> called;
  for (llvm::Function &function : module) {
    if (is_kernel(function) && !function.use_empty()) called.push_back(&function);
  }
  for (llvm::Function *kernel : called) {
    llvm::ValueToValueMapTy map;
    llvm::Function *body = llvm::CloneFunction(kernel, map);
    body->setName(kernel->getName() + ".body");
    body->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    body->setLinkage(llvm::GlobalValue::InternalLinkage);
    kernel->replaceAllUsesWith(body);
    for (llvm::User *user : body->users()) {
      if (auto *call = llvm::dyn_cast<llvm::CallBase>(user)) {
        call->setCallingConv(llvm::CallingConv::SPIR_FUNC);
      }
    }
  }
}

void mark_for_inlining(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    function.removeFnAttr(llvm::Attribute::OptimizeNone);
    function.removeFnAttr(llvm::Attribute::NoInline);
    if (is_kernel(function)) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

void run_passes(llvm::Module &module, const char *pipeline) {
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
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, pipeline));
  passes.run(module, modules);
}

// Work-items meet again at one return, where a barrier is legal.
void unify_returns(llvm::Function &kernel) {
  std::vector<llvm::ReturnInst *> returns;
  for (llvm::BasicBlock &block : kernel) {
    if (auto *end = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator())) {
      returns.push_back(end);
    }
  }
  if (returns.size() < 2) return;
  auto *exit = llvm::BasicBlock::Create(kernel.getContext(), "return", &kernel);
  llvm::ReturnInst::Create(kernel.getContext(), exit);
  for (llvm::ReturnInst *end : returns) {
    llvm::BranchInst::Create(exit, end);
    end->eraseFromParent();
  }
}

}  // namespace

std::vector<llvm::Function *> prepare(llvm::Module &module) {
  split_called_kernels(module);
  mark_for_inlining(module);
  run_passes(module,
             "always-inline,globaldce,"
             "function(sroa,early-cse,simplifycfg,instcombine,simplifycfg,adce),globaldce");
  std::vector<llvm::Function *> kernels;
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    if (!is_kernel(function)) {
      throw Failure("the function '" + function.getName().str() +
                    "' is recursive or its address is taken, which OpenCL C does not allow");
    }
    unify_returns(function);
    kernels.push_back(&function);
  }
  return kernels;
}

}  // namespace clinst
