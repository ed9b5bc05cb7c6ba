#include "counters.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include "exit.h"
#include "flow.h"
#include "mix.h"
#include "signature.h"
#include "trip_counts.h"

namespace clinst {
namespace {

using llvm::BasicBlock;

struct Edge {
  BasicBlock *from, *to;
};

// A switch may name a block more than once: that is one edge.
std::vector<Edge> edges_of(llvm::Function &function) {
  std::vector<Edge> edges;
  for (BasicBlock &block : function) {
    llvm::SmallSetVector<BasicBlock *, 4> targets(succ_begin(&block), succ_end(&block));
    for (BasicBlock *to : targets) edges.push_back({&block, to});
  }
  return edges;
}

// What an increment on the edge costs: how often it is expected to run. The back edge of a loop
// whose trip count is known on entry costs one addition an entry (trip_counts.h).
double cost_of(const Edge &edge, llvm::Function &function,
               llvm::FunctionAnalysisManager &analyses) {
  auto &frequencies = analyses.getResult<llvm::BlockFrequencyAnalysis>(function);
  auto &probabilities = analyses.getResult<llvm::BranchProbabilityAnalysis>(function);
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  llvm::Loop *loop = loops.getLoopFor(edge.from);
  if (loop && loop->getHeader() == edge.to && loop->getLoopLatch() == edge.from &&
      trip_count_known(*loop, function, analyses)) {
    double entries = 0;
    for (BasicBlock *before : predecessors(edge.to)) {
      if (loop->contains(before)) continue;
      entries += static_cast<double>(frequencies.getBlockFreq(before).getFrequency());
    }
    return entries;
  }
  auto share = probabilities.getEdgeProbability(edge.from, edge.to);
  return static_cast<double>(frequencies.getBlockFreq(edge.from).getFrequency()) *
         share.getNumerator() / share.getDenominator();
}

// A block that runs exactly when the edge is taken.
llvm::Instruction *place_on(const Edge &edge) {
  if (edge.from->getUniqueSuccessor()) return edge.from->getTerminator();
  if (edge.to->getUniquePredecessor()) return &*edge.to->getFirstInsertionPt();
  auto *middle =
      BasicBlock::Create(edge.from->getContext(), "edge", edge.from->getParent(), edge.to);
  auto *jump = llvm::BranchInst::Create(edge.to, middle);
  edge.from->getTerminator()->replaceSuccessorWith(edge.to, middle);
  for (llvm::PHINode &phi : edge.to->phis()) {
    phi.setIncomingBlock(phi.getBasicBlockIndex(edge.from), middle);
    for (int again; (again = phi.getBasicBlockIndex(edge.from)) >= 0;) {
      phi.removeIncomingValue(again, false);
    }
  }
  return jump;
}

}  // namespace

Instrumented instrument(llvm::Function &original, llvm::FunctionAnalysisManager &analyses,
                        bool non_uniform) {
  Instrumented result;
  Kernel &kernel = result.kernel;
  kernel.name = original.getName().str();
  kernel.n_args = original.arg_size();
  result.function = add_arguments(original);
  llvm::Function &function = *result.function;

  std::vector<Edge> edges = edges_of(function);
  llvm::DenseMap<BasicBlock *, uint32_t> number;
  for (BasicBlock &block : function) {
    number[&block] = kernel.blocks.size();
    kernel.blocks.push_back(count_instructions(block));
  }
  std::vector<FlowEdge> flow;
  for (const Edge &edge : edges) {
    flow.push_back({number[edge.from], number[edge.to], cost_of(edge, function, analyses)});
  }
  FlowPlan plan = plan_flow(kernel.blocks.size(), flow);
  kernel.derivation = std::move(plan.derivation);

  // Counters start as memory, so that they can be put anywhere, and become registers below.
  llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
  std::vector<llvm::AllocaInst *> counters;
  for (size_t p = 0; p < plan.probes.size(); p++) {
    counters.push_back(builder.CreateAlloca(builder.getInt64Ty(), nullptr, "xpuprof.count"));
    builder.CreateStore(builder.getInt64(0), counters.back());
  }
  for (size_t p = 0; p < plan.probes.size(); p++) {
    builder.SetInsertPoint(place_on(edges[plan.probes[p]]));
    auto *sum = builder.CreateAdd(builder.CreateLoad(builder.getInt64Ty(), counters[p]),
                                  builder.getInt64(1), "xpuprof.count");
    builder.CreateStore(sum, counters[p]);
  }
  kernel.n_probes = counters.size();
  kernel.scratch_probes = std::min<uint32_t>(kernel.n_probes, kScratchProbes);
  write_counts(function, counters, non_uniform);

  llvm::DominatorTree dominators(function);
  llvm::PromoteMemToReg(counters, dominators);
  analyses.invalidate(function, llvm::PreservedAnalyses::none());
  hoist_trip_counts(function, analyses);
  return result;
}

}  // namespace clinst
