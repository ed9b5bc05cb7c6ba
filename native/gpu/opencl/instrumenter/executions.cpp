// SPDX-License-Identifier: Apache-2.0
#include "executions.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/PatternMatch.h>

#include "loop_bounds.h"

namespace clinst {

using llvm::BasicBlock;
using llvm::Loop;
using llvm::Value;

Executions::Executions(llvm::Function &function, uint32_t n_args,
                       llvm::FunctionAnalysisManager &analyses)
    : Expressions(function, n_args, analyses), reducible_(is_reducible(function, loops_)) {}

// Right as long as each addition stands in the block that it counts: no pass that merges or moves
// them has run on the counters.
uint32_t Executions::counted(Value *counter) {
  using namespace llvm::PatternMatch;
  if (!reducible_) throw NotKnown();
  llvm::SmallPtrSet<Value *, 16> seen;
  std::vector<Value *> left{counter};
  uint32_t sum = nodes_.constant(0, 64);
  while (!left.empty()) {
    Value *value = left.back(), *before;
    left.pop_back();
    const llvm::APInt *amount;
    if (match(value, m_Zero()) || !seen.insert(value).second) continue;
    if (auto *phi = llvm::dyn_cast<llvm::PHINode>(value)) {
      left.insert(left.end(), phi->op_begin(), phi->op_end());
    } else if (match(value, m_Add(m_Value(before), m_APInt(amount)))) {
      const uint32_t times = executions(llvm::cast<llvm::Instruction>(value)->getParent());
      const uint32_t by = nodes_.constant(amount->getZExtValue(), 64);
      sum = nodes_.binary(CLINST_ADD, sum, nodes_.binary(CLINST_MUL, by, times));
      left.push_back(before);
    } else {
      throw NotKnown();
    }
  }
  return nodes_.resized(sum, bits(counter));
}

// The product of the turns, in all loops around the block, in which it is reached.
uint32_t Executions::executions(BasicBlock *block) {
  uint32_t product = nodes_.constant(1, 64);
  for (const Loop *loop = loops_.getLoopFor(block); loop; loop = loop->getParentLoop()) {
    product = nodes_.binary(CLINST_MUL, product, turns(block, loop));
    block = loop->getHeader();
  }
  return nodes_.binary(CLINST_MUL, product, nodes_.resized(reached(block), 64));
}

// The iterations, for each entry of the loop, that reach the block: one of the loop's own, or the
// header of an inner loop.
uint32_t Executions::turns(BasicBlock *block, const Loop *loop) {
  if (!known_trips(loop) && !stride_of(loop).counter) return turns_followed(block, loop);
  uint32_t sum = nodes_.constant(0, 64);
  for (const Span &span : spans_of(block, loop)) {
    const uint32_t any = nodes_.both(span.holds, nodes_.compared(CLINST_ULESS, span.from, span.to));
    const uint32_t number =
        nodes_.choice(any, nodes_.binary(CLINST_SUB, span.to, span.from), nodes_.constant(0, 64));
    sum = nodes_.binary(span.less ? CLINST_SUB : CLINST_ADD, sum, number);
  }
  return sum;
}

uint32_t Executions::turns_followed(BasicBlock *block, const Loop *loop) {
  const uint32_t taken = trips(loop);
  uint32_t sum = nodes_.constant(0, 64);
  uint64_t number = 0;
  for (Turn &turn : turns_of(loop).all) {
    const uint32_t over = nodes_.compared(CLINST_ULESS, taken, nodes_.constant(number++, 32));
    InTurn in(*this, &turn);
    const uint32_t here = nodes_.both(nodes_.inverse(over), reached(block));
    sum = nodes_.binary(CLINST_ADD, sum, nodes_.resized(here, 64));
  }
  return sum;
}

// Known, and the same for each entry of the loop.
bool Executions::is_fixed(const llvm::SCEV *value, const Loop *loop) {
  return evolution_.isLoopInvariant(value, loop->getOutermostLoop());
}

bool Executions::is_fixed(const Stride &stride, const Loop *loop) {
  return is_fixed(stride.end, loop) && is_fixed(stride.counter->getStart(), loop) &&
         is_fixed(stride.counter->getStepRecurrence(evolution_), loop);
}

// The backedge-taken count of a loop with one exit, tested in every iteration.
uint32_t Executions::times_round(const Loop *loop) {
  if (!only_exit(*loop, dominators_, loops_)) throw NotKnown();
  const llvm::SCEV *count = known_trips(loop);
  if (count ? !is_fixed(count, loop) : !is_fixed(stride_of(loop), loop)) throw NotKnown();
  return nodes_.resized(trips(loop), 64);
}

Executions::Spans Executions::spans_of(BasicBlock *block, const Loop *loop) {
  if (block == loop->getHeader()) {
    const uint32_t one = nodes_.constant(1, 64);
    const uint32_t tests = nodes_.binary(CLINST_ADD, times_round(loop), one);
    return {{nodes_.constant(0, 64), tests, nodes_.constant(1, 1)}};
  }
  BasicBlock *before = dominators_.getNode(block)->getIDom()->getBlock();
  const bool always = behind_.dominates(block, before);
  const Loop *within = loops_.getLoopFor(before);
  while (within != loop && within->getParentLoop() != loop) within = within->getParentLoop();
  if (within != loop) {
    if (!always) throw NotKnown();
    return spans_of(within->getHeader(), loop);
  }
  Spans spans = spans_of(before, loop);
  if (always) return spans;
  const Loop *own = loops_.getLoopFor(block);  // perhaps an inner one, of which it is the header
  for (BasicBlock *other : predecessors(block))
    if (other != before && (own == loop || !own->contains(other))) throw NotKnown();
  if (before == loop->getExitingBlock()) {
    for (Span &span : spans) span.to = nodes_.least(CLINST_ULESS, span.to, times_round(loop));
    return spans;
  }
  auto *branch = llvm::dyn_cast<llvm::BranchInst>(before->getTerminator());
  if (!branch || branch->isUnconditional()) throw NotKnown();
  return where(std::move(spans), branch->getCondition(), branch->getSuccessor(0) == block, loop);
}

Executions::Spans Executions::without(Spans all, Spans some) {
  for (Span &span : some) {
    span.less = !span.less;
    all.push_back(span);
  }
  return all;
}

Executions::Spans Executions::where(Spans spans, Value *condition, bool holds, const Loop *loop) {
  using namespace llvm::PatternMatch;
  Value *a, *b;
  if (match(condition, m_Not(m_Value(a)))) return where(std::move(spans), a, !holds, loop);
  const bool both = match(condition, m_LogicalAnd(m_Value(a), m_Value(b)));
  if (both || match(condition, m_LogicalOr(m_Value(a), m_Value(b)))) {
    Spans agree = where(where(spans, a, both, loop), b, both, loop);
    return holds == both ? agree : without(std::move(spans), std::move(agree));
  }
  auto *test = llvm::dyn_cast<llvm::ICmpInst>(condition);
  if (!test || !test->getOperand(0)->getType()->isIntegerTy()) throw NotKnown();
  return where(std::move(spans), *test, holds, loop);
}

Executions::Spans Executions::where(Spans spans, const llvm::ICmpInst &test, bool holds,
                                    const Loop *loop) {
  using llvm::CmpInst;
  if (llvm::all_of(test.operands(),
                   [&](Value *of) { return is_fixed(evolution_.getSCEV(of), loop); })) {
    const uint32_t fulfilled = compared(test);
    for (Span &span : spans)
      span.holds = nodes_.both(span.holds, holds ? fulfilled : nodes_.inverse(fulfilled));
    return spans;
  }
  const Stride stride = tested(test, holds, loop);
  if (!stride.counter || !is_fixed(stride, loop)) throw NotKnown();
  if (!test.isEquality()) return where(std::move(spans), stride, loop);
  Stride least = stride, less = stride;
  least.stays = CmpInst::ICMP_SLE;
  less.stays = CmpInst::ICMP_SLT;
  Spans equal = without(where(spans, least, loop), where(spans, less, loop));
  return stride.stays == CmpInst::ICMP_EQ ? equal : without(std::move(spans), std::move(equal));
}

// A test of a value that only rises, or only falls, holds up to some iteration or from one on.
Executions::Spans Executions::where(Spans spans, const Stride &test, const Loop *loop) {
  const bool falls = evolution_.isKnownNegative(test.counter->getStepRecurrence(evolution_));
  const bool below = llvm::ICmpInst::isLT(test.stays) || llvm::ICmpInst::isLE(test.stays);
  Stride first = test;
  if (below == falls) first.stays = llvm::CmpInst::getInversePredicate(test.stays);
  const Way way = way_of(first);
  const uint32_t room =
      nodes_.binary(CLINST_UDIV, nodes_.binary(CLINST_SUB, way.top, way.start), way.step);
  const uint32_t stays =
      nodes_.inverse(nodes_.compared(CLINST_ULESS, nodes_.resized(room, 64), times_round(loop)));
  const uint32_t turn =
      nodes_.provided(nodes_.both(moves(way), stays), nodes_.resized(strided(way), 64));
  for (Span &span : spans) {
    if (below == falls)
      span.from = nodes_.greatest(CLINST_ULESS, span.from, turn);
    else
      span.to = nodes_.least(CLINST_ULESS, span.to, turn);
  }
  return spans;
}

}  // namespace clinst
