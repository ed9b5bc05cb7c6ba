// SPDX-License-Identifier: Apache-2.0
#include "analytic_counts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "executions.h"
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

namespace {

// A counter is known by its value, or as a sum over its increments.
enum class By { value, increments };

struct Search {
  llvm::CallInst &observer;
  const std::vector<Slot> &slots;
  const Warps &warps;
  llvm::FunctionAnalysisManager &analyses;
  Kernel *kernel;
};

void find_in(llvm::Function &copy, const llvm::CallInst &observer, By by, const Search &search) {
  Executions expressions(copy, search.kernel->n_args, search.analyses);
  std::vector<Output> outputs(search.kernel->n_probes);
  for (size_t s = 0; s < search.slots.size(); s++) {
    const Slot &slot = search.slots[s];
    llvm::Value *counter = observer.getArgOperand(s);
    const uint32_t node =
        by == By::value ? expressions.value(counter) : expressions.counted(counter);
    for (size_t field = 0; field < slot.probes.size(); field++) {
      unsigned width = slot.bits == 64 ? 64 : search.warps.field_bits();
      outputs[slot.probes[field]] = {node, static_cast<uint32_t>(field) * width, width};
    }
  }
  search.kernel->nodes = expressions.take();
  search.kernel->outputs = std::move(outputs);
}

// In a copy, which may compute in front of loops what would make the kernel itself slower.
bool find(By by, const Search &search) {
  llvm::ValueToValueMapTy copies;
  llvm::Function *copy = llvm::CloneFunction(search.observer.getFunction(), copies);
  hoist_queries(*copy);
  narrow_variables(*copy);
  if (by == By::value) hoist_trip_counts(*copy, search.analyses);
  bool found = true;
  try {
    find_in(*copy, *llvm::cast<llvm::CallInst>(copies.lookup(&search.observer)), by, search);
  } catch (const NotKnown &) {
    found = false;
  }
  search.analyses.clear(*copy, copy->getName());
  copy->eraseFromParent();
  return found;
}

}  // namespace

void find_analytic_counts(llvm::CallInst *observer, const std::vector<Slot> &slots,
                          const Warps &warps, llvm::FunctionAnalysisManager &analyses,
                          Kernel *kernel) {
  if (!observer) return;
  const Search search{*observer, slots, warps, analyses, kernel};
  if (!find(By::value, search)) find(By::increments, search);
}

}  // namespace clinst
