// SPDX-License-Identifier: Apache-2.0
#include "analytic_counts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "expressions.h"
#include "trip_counts.h"

namespace clinst {

llvm::CallInst *observe(llvm::Function &function, const std::vector<Slot> &slots) {
  llvm::ReturnInst *end = only_return(function);
  if (!end || slots.empty()) return nullptr;
  llvm::IRBuilder<> builder(end);
  std::vector<llvm::Value *> values;
  for (const Slot &slot : slots) {
    values.push_back(builder.CreateLoad(slot.value->getAllocatedType(), slot.value, kCounterName));
  }
  auto *type = llvm::FunctionType::get(builder.getVoidTy(), true);
  auto *observer = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                          "xpuprof.observe", function.getParent());
  return builder.CreateCall(observer, values);
}

void stop_observing(llvm::CallInst *observer) {
  if (!observer) return;
  llvm::Function *callee = observer->getCalledFunction();
  observer->eraseFromParent();
  callee->eraseFromParent();
}

static void find(const llvm::CallInst &observer, const std::vector<Slot> &slots, const Warps &warps,
                 Expressions *expressions, Kernel *kernel) {
  std::vector<Output> outputs(kernel->n_probes);
  for (size_t s = 0; s < slots.size(); s++) {
    uint32_t node = expressions->value(observer.getArgOperand(s));
    for (size_t field = 0; field < slots[s].probes.size(); field++) {
      unsigned width = slots[s].bits == 64 ? 64 : warps.field_bits();
      outputs[slots[s].probes[field]] = {node, static_cast<uint32_t>(field) * width, width};
    }
  }
  kernel->nodes = expressions->take();
  kernel->outputs = std::move(outputs);
}

void find_analytic_counts(llvm::CallInst *observer, const std::vector<Slot> &slots,
                          const Warps &warps, llvm::FunctionAnalysisManager &analyses,
                          Kernel *kernel) {
  if (!observer) return;
  // In a copy, which may compute in front of loops what would make the kernel itself slower.
  llvm::ValueToValueMapTy copies;
  llvm::Function *copy = llvm::CloneFunction(observer->getFunction(), copies);
  hoist_queries(*copy);
  narrow_variables(*copy);
  hoist_trip_counts(*copy, analyses);
  try {
    Expressions expressions(*copy, kernel->n_args, analyses);
    find(*llvm::cast<llvm::CallInst>(copies.lookup(observer)), slots, warps, &expressions, kernel);
  } catch (const NotKnown &) {
    // The kernel counts for itself.
  }
  analyses.clear(*copy, copy->getName());
  copy->eraseFromParent();
}

}  // namespace clinst
