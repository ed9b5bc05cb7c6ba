// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

#include <llvm/ADT/SCCIterator.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <set>

#include "analytic_counts.h"
#include "exit.h"
#include "flow.h"
#include "in_memory.h"
#include "mix.h"
#include "multiples.h"
#include "narrow.h"
#include "signature.h"
#include "trip_counts.h"
#include "varying.h"
#include "versions.h"

namespace clinst {
namespace {

using llvm::BasicBlock;

// A switch may name a block more than once: this is one edge.
std::vector<Edge> edges_of(llvm::Function &function) {
  std::vector<Edge> edges;
  for (BasicBlock &block : function) {
    llvm::SmallSetVector<BasicBlock *, 4> targets(succ_begin(&block), succ_end(&block));
    for (BasicBlock *to : targets) edges.push_back({&block, to});
  }
  return edges;
}

constexpr double kNever = 1e299;  // below the cost of the exit edge, which cannot be counted

// The cost of an increment on the edge: its expected frequency. The back edge of a loop whose trip
// count is known on entry costs one addition per entry (trip_counts.h), a multiple nothing
// (multiples.h).
double cost_of(const Edge &edge, llvm::Function &function,
               llvm::FunctionAnalysisManager &analyses) {
  if (is_multiple(edge, function, analyses)) return 0;
  if (is_rest(edge)) return kNever;
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

// Strongly connected component of every block: an edge inside one may be taken again and again, any
// other at most once. Loops do not suffice, since jumps into a loop make irreducible cycles.
std::vector<uint32_t> components(llvm::Function &function,
                                 const llvm::DenseMap<BasicBlock *, uint32_t> &number) {
  std::vector<uint32_t> component(number.size());
  uint32_t n = 0;
  for (auto scc = llvm::scc_begin(&function); !scc.isAtEnd(); ++scc, n++) {
    for (BasicBlock *block : *scc) component[number.lookup(block)] = n;
  }
  return component;
}

// Whether it is the back edge of a loop with a barrier: all work-items take it as often.
bool is_joint(const Edge &edge, llvm::LoopInfo &loops) {
  llvm::Loop *loop = loops.getLoopFor(edge.to);
  if (!loop || loop->getHeader() != edge.to || !loop->contains(edge.from)) return false;
  return llvm::any_of(loop->blocks(), [&](BasicBlock *block) {
    return loops.getLoopFor(block) == loop && has_barrier(*block);
  });
}

// ---- the plan ---------------------------------------------------------------------------------

// The planned contents of a slot.
struct Fields {
  unsigned bits;
  std::vector<uint32_t> probes;
};

// What is decided before the kernel changes.
struct CounterPlan {
  std::vector<Edge> edges;  // by probe
  std::vector<Multiple> multiples;
  std::vector<Fields> slots;
  size_t n_counted = 0;        // of the slots: the others are the multiples'
  std::set<uint32_t> varying;  // probes of counters that have to differ between work-items
  bool body_varies = false, in_memory = false;
};

std::vector<Fields> fields_of(const std::vector<uint32_t> &once, const std::vector<uint32_t> &often,
                              unsigned field_bits) {
  const size_t most = 32 / field_bits;
  std::vector<Fields> fields;
  for (size_t at = 0; at < once.size(); at += most) {
    std::vector<uint32_t> probes(once.begin() + at,
                                 once.begin() + std::min(once.size(), at + most));
    unsigned bits = llvm::PowerOf2Ceil(std::max<size_t>(8, probes.size() * field_bits));
    fields.push_back({bits, std::move(probes)});
  }
  for (uint32_t probe : often) fields.push_back({64, {probe}});
  return fields;
}

// Multiples have slots only for analytic counts (analytic_counts.h); their values in the kernel are
// not used.
void plan_slots(const std::vector<FlowEdge> &flow, const std::vector<uint32_t> &probes,
                const std::vector<uint32_t> &component, unsigned field_bits, CounterPlan *plan) {
  std::set<uint32_t> free;
  for (const Multiple &multiple : plan->multiples) free.insert(multiple.probe);
  std::vector<uint32_t> once[2], often[2];
  for (uint32_t p = 0; p < probes.size(); p++) {
    const FlowEdge &edge = flow[probes[p]];
    (component[edge.from] == component[edge.to] ? often : once)[free.count(p)].push_back(p);
  }
  plan->slots = fields_of(once[0], often[0], field_bits);
  plan->n_counted = plan->slots.size();
  for (Fields &one : fields_of(once[1], often[1], field_bits)) plan->slots.push_back(one);
}

void plan_variation(llvm::Function &function, llvm::LoopInfo &loops, const Warps &warps,
                    CounterPlan *plan) {
  const bool has_barriers = llvm::any_of(function, has_barrier);
  plan->body_varies = warps.pocl && !has_barriers && !loops.empty();
  if (warps.pocl ? !has_barriers : !warps.sub_groups) return;
  for (uint32_t p = 0; p < plan->edges.size(); p++) {
    if (!is_joint(plan->edges[p], loops)) plan->varying.insert(p);
  }
}

// Also describes the kernel's blocks.
CounterPlan plan_counters(llvm::Function &function, llvm::FunctionAnalysisManager &analyses,
                          const Warps &warps, Kernel *kernel) {
  const std::vector<Edge> edges = edges_of(function);
  llvm::DenseMap<BasicBlock *, uint32_t> number;
  for (BasicBlock &block : function) {
    number[&block] = kernel->blocks.size();
    kernel->blocks.push_back(count_instructions(block));
  }
  std::vector<FlowEdge> flow;
  for (const Edge &edge : edges) {
    flow.push_back({number[edge.from], number[edge.to], cost_of(edge, function, analyses)});
  }
  FlowPlan counted = plan_flow(kernel->blocks.size(), flow);
  CounterPlan plan;
  plan.multiples = find_multiples(function, edges, flow, counted, analyses);
  for (uint32_t edge : counted.probes) plan.edges.push_back(edges[edge]);
  plan_slots(flow, counted.probes, components(function, number), warps.field_bits(), &plan);
  plan_variation(function, analyses.getResult<llvm::LoopAnalysis>(function), warps, &plan);
  kernel->derivation = std::move(counted.derivation);
  kernel->n_probes = plan.edges.size();
  plan.in_memory = counts_in_memory(function, kernel->n_probes, warps, analyses);
  kernel->scratch_probes =
      warps.reduce || plan.in_memory ? 0 : std::min<uint32_t>(plan.n_counted, warps.local_words);
  return plan;
}

// ---- the code ---------------------------------------------------------------------------------

// Counters start as memory, so that they can be incremented anywhere; PromoteMemToReg turns them
// into registers. Narrow counters keep a runtime's vectors over the work-items wide.
Slot make_slot(llvm::IRBuilder<> &builder, const Fields &fields) {
  auto *type = builder.getIntNTy(fields.bits);
  auto *value = builder.CreateAlloca(type, nullptr, kCounterName);
  builder.CreateStore(llvm::ConstantInt::get(type, 0), value);
  return {value, fields.bits, fields.probes};
}

// Erases the counters that are registers.
void drop_counters(llvm::Function &function) {
  std::vector<llvm::Instruction *> counters;
  for (llvm::Instruction &instruction : llvm::instructions(function)) {
    if (starts_with(instruction.getName(), kCounterName)) counters.push_back(&instruction);
  }
  for (llvm::Instruction *counter : counters)
    counter->replaceAllUsesWith(llvm::PoisonValue::get(counter->getType()));
  for (llvm::Instruction *counter : counters) counter->eraseFromParent();
}

std::vector<Slot> make_slots(llvm::IRBuilder<> &builder, const CounterPlan &plan) {
  std::vector<Slot> slots;
  for (const Fields &fields : plan.slots) {
    slots.push_back(make_slot(builder, fields));
    slots.back().varies =
        llvm::any_of(fields.probes, [&](uint32_t p) { return plan.varying.count(p); });
  }
  return slots;
}

// Returns, by probe, the block that runs when its edge is taken.
std::vector<BasicBlock *> insert_increments(llvm::IRBuilder<> &builder, const CounterPlan &plan,
                                            const std::vector<Slot> &slots, unsigned field_bits) {
  std::vector<BasicBlock *> places(plan.edges.size());
  for (const Slot &slot : slots) {
    for (size_t field = 0; field < slot.probes.size(); field++) {
      const uint32_t probe = slot.probes[field];
      builder.SetInsertPoint(place_on(plan.edges[probe]));
      places[probe] = builder.GetInsertBlock();
      auto *type = slot.value->getAllocatedType();
      auto *one = llvm::ConstantInt::get(type, 1ull << (field * field_bits));
      auto *sum = builder.CreateAdd(builder.CreateLoad(type, slot.value), one, kCounterName);
      builder.CreateStore(sum, slot.value);
    }
  }
  return places;
}

void promote(llvm::Function &function, const std::vector<Slot> &slots,
             llvm::FunctionAnalysisManager &analyses) {
  std::vector<llvm::AllocaInst *> counters;
  for (const Slot &slot : slots) counters.push_back(slot.value);
  llvm::DominatorTree dominators(function);
  llvm::PromoteMemToReg(counters, dominators);
  analyses.invalidate(function, llvm::PreservedAnalyses::none());
}

}  // namespace

Instrumented instrument(llvm::Function &original, llvm::FunctionAnalysisManager &analyses,
                        const Warps &warps) {
  Instrumented result;
  Kernel &kernel = result.kernel;
  kernel.name = original.getName().str();
  kernel.n_args = original.arg_size();
  const BuiltInsReturn known(*original.getParent());
  const CounterPlan plan = plan_counters(original, analyses, warps, &kernel);

  analyses.clear(original, original.getName());
  result.function = add_arguments(original, kernel.scratch_probes > 0);
  llvm::Function &function = *result.function;
  llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
  std::vector<Slot> slots = make_slots(builder, plan);
  std::vector<BasicBlock *> places = insert_increments(builder, plan, slots, warps.field_bits());
  llvm::CallInst *observer = observe(function, slots);
  promote(function, slots, analyses);
  find_analytic_counts(observer, slots, warps, analyses, &kernel);
  if (plan.in_memory) {
    stop_observing(observer);
    drop_counters(function);
    count_in_memory(function, std::move(places), warps);
    return result;
  }
  hoist_trip_counts(function, analyses);
  for (size_t s = 0; observer && s < slots.size(); s++) {
    slots[s].result = observer->getArgOperand(s);
  }
  stop_observing(observer);
  slots.erase(slots.begin() + plan.n_counted, slots.end());
  narrow_counters(function, slots, analyses);
  make_varying(function, slots);
  if (plan.body_varies) make_body_varying(function, slots);
  write_counts(function, slots, plan.multiples, kernel.n_probes, warps);
  return result;
}

}  // namespace clinst
