// SPDX-License-Identifier: Apache-2.0
#include "multiples.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <set>

#include "uniform.h"

namespace clinst {
namespace {

// NULL: the edge is not the only back edge of a loop with a uniform trip count.
const llvm::SCEV *trips_of(const Edge &edge, llvm::Function &function,
                           llvm::FunctionAnalysisManager &analyses) {
  auto &loops = analyses.getResult<llvm::LoopAnalysis>(function);
  llvm::Loop *loop = loops.getLoopFor(edge.to);
  if (!loop || loop->getHeader() != edge.to || loop->getLoopLatch() != edge.from) return nullptr;
  auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  const llvm::SCEV *trips = evolution.getBackedgeTakenCount(loop);
  if (llvm::isa<llvm::SCEVCouldNotCompute>(trips)) return nullptr;
  return is_uniform(trips) ? trips : nullptr;
}

// NULL: the edge does not leave a branch with a uniform condition.
llvm::BranchInst *branch_of(const Edge &edge) {
  auto *branch = llvm::dyn_cast<llvm::BranchInst>(edge.from->getTerminator());
  if (!branch || branch->isUnconditional() || branch->getSuccessor(0) == branch->getSuccessor(1) ||
      !is_uniform(branch->getCondition())) {
    return nullptr;
  }
  return branch;
}

std::vector<Term> without(const std::vector<Term> &terms, uint32_t probe) {
  std::vector<Term> rest;
  for (const Term &term : terms) {
    if (term.probe != static_cast<int32_t>(probe)) rest.push_back(term);
  }
  return rest;
}

int32_t factor_of(const std::vector<Term> &terms, uint32_t probe) {
  for (const Term &term : terms) {
    if (term.probe == static_cast<int32_t>(probe)) return term.factor;
  }
  return 0;
}

bool all_in(const std::vector<Term> &terms, const std::set<int32_t> &known) {
  return std::all_of(terms.begin(), terms.end(),
                     [&](const Term &term) { return known.count(term.probe) != 0; });
}

}  // namespace

bool is_multiple(const Edge &edge, llvm::Function &function,
                 llvm::FunctionAnalysisManager &analyses) {
  llvm::BranchInst *branch = branch_of(edge);
  if (branch) return branch->getSuccessor(0) == edge.to;
  return trips_of(edge, function, analyses);
}

bool is_rest(const Edge &edge) {
  llvm::BranchInst *branch = branch_of(edge);
  return branch && branch->getSuccessor(1) == edge.to;
}

std::vector<Multiple> find_multiples(llvm::Function &function, const std::vector<Edge> &edges,
                                     const std::vector<FlowEdge> &flow, const FlowPlan &plan,
                                     llvm::FunctionAnalysisManager &analyses) {
  llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
  std::vector<Multiple> candidates;
  std::set<int32_t> known = {-1};
  for (uint32_t p = 0; p < plan.probes.size(); p++) {
    const Edge &edge = edges[plan.probes[p]];
    const FlowEdge &numbers = flow[plan.probes[p]];
    if (const llvm::SCEV *trips = trips_of(edge, function, analyses)) {
      // Entries of the loop: executions of its header that do not come from its latch.
      const std::vector<Term> &header = plan.derivation[numbers.to];
      if (factor_of(header, p) == 1) {
        auto *factor = builder.CreateZExt(compute(trips, builder), builder.getInt64Ty());
        candidates.push_back({p, without(header, p), factor});
        continue;
      }
    } else if (llvm::BranchInst *branch = branch_of(edge)) {
      const std::vector<Term> &before = plan.derivation[numbers.from];
      if (factor_of(before, p) == 0) {
        llvm::Value *taken = compute(branch->getCondition(), builder);
        if (branch->getSuccessor(0) != edge.to) taken = builder.CreateNot(taken);
        candidates.push_back({p, before, builder.CreateZExt(taken, builder.getInt64Ty())});
        continue;
      }
    }
    known.insert(p);
  }

  // In dependency order; in a dependency cycle some are counted.
  std::vector<Multiple> result;
  while (!candidates.empty()) {
    auto next = std::find_if(candidates.begin(), candidates.end(),
                             [&](const Multiple &one) { return all_in(one.of, known); });
    bool found = next != candidates.end();
    if (!found) next = candidates.begin();
    known.insert(next->probe);
    if (found) result.push_back(*next);
    candidates.erase(next);
  }
  return result;
}

}  // namespace clinst
