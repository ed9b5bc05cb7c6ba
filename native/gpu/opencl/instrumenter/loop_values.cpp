// SPDX-License-Identifier: Apache-2.0
// Values that leave a loop: by scalar evolution; by the trip count of a loop with any stride, as
// far as it does not wrap round; or turn by turn, where a value is halved or doubled.
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>

#include "expressions.h"
#include "loop_bounds.h"

namespace clinst {

using llvm::Value;

// The node of an expression, its loops left behind.
class Expressions::OfEvolution : public llvm::SCEVVisitor<OfEvolution, uint32_t> {
 public:
  explicit OfEvolution(Expressions &of) : of_(of), nodes_(of.nodes_) {}

  uint32_t visitConstant(const llvm::SCEVConstant *one) {
    const unsigned width = bits(one);
    return nodes_.constant(one->getAPInt().getZExtValue(), width);
  }
  uint32_t visitUnknown(const llvm::SCEVUnknown *one) { return of_.value(one->getValue()); }
  uint32_t visitTruncateExpr(const llvm::SCEVTruncateExpr *one) { return resized(one); }
  uint32_t visitZeroExtendExpr(const llvm::SCEVZeroExtendExpr *one) { return resized(one); }
  uint32_t visitSignExtendExpr(const llvm::SCEVSignExtendExpr *one) {
    return nodes_.make({CLINST_SEXT, bits(one), visit(one->getOperand()), 0, 0, 0});
  }
  uint32_t visitAddExpr(const llvm::SCEVAddExpr *all) { return folded(all, CLINST_ADD); }
  uint32_t visitMulExpr(const llvm::SCEVMulExpr *all) { return folded(all, CLINST_MUL); }
  uint32_t visitUDivExpr(const llvm::SCEVUDivExpr *one) {
    const uint32_t a = visit(one->getLHS());
    return nodes_.binary(CLINST_UDIV, a, visit(one->getRHS()));
  }
  uint32_t visitSMaxExpr(const llvm::SCEVSMaxExpr *all) { return greatest(all, CLINST_SLESS); }
  uint32_t visitUMaxExpr(const llvm::SCEVUMaxExpr *all) { return greatest(all, CLINST_ULESS); }
  uint32_t visitSMinExpr(const llvm::SCEVSMinExpr *all) { return least(all, CLINST_SLESS); }
  uint32_t visitUMinExpr(const llvm::SCEVUMinExpr *all) { return least(all, CLINST_ULESS); }
  uint32_t visitSequentialUMinExpr(const llvm::SCEVSequentialUMinExpr *all) {
    return least(all, CLINST_ULESS);
  }
  uint32_t visitAddRecExpr(const llvm::SCEVAddRecExpr *one) {
    if (!one->isAffine()) throw NotKnown();
    const uint32_t start = visit(one->getStart());
    const uint32_t step = visit(one->getStepRecurrence(of_.evolution_));
    const uint32_t trips = nodes_.resized(of_.trips(one->getLoop()), bits(one));
    return nodes_.binary(CLINST_ADD, start, nodes_.binary(CLINST_MUL, step, trips));
  }
  uint32_t visitPtrToIntExpr(const llvm::SCEVPtrToIntExpr *) { throw NotKnown(); }
#if LLVM_VERSION_MAJOR >= 18
  uint32_t visitVScale(const llvm::SCEVVScale *) { throw NotKnown(); }
#endif
  uint32_t visitCouldNotCompute(const llvm::SCEVCouldNotCompute *) { throw NotKnown(); }

 private:
  unsigned bits(const llvm::SCEV *of) {
    if (!of->getType()->isIntegerTy() || of->getType()->getIntegerBitWidth() > 64) throw NotKnown();
    return of->getType()->getIntegerBitWidth();
  }
  uint32_t resized(const llvm::SCEVCastExpr *one) {
    return nodes_.resized(visit(one->getOperand()), bits(one));
  }
  template <class Step>
  uint32_t fold(const llvm::SCEVNAryExpr *all, Step &&step) {
    bits(all);
    uint32_t result = visit(all->getOperand(0));
    for (size_t i = 1; i < all->getNumOperands(); i++)
      result = step(result, visit(all->getOperand(i)));
    return result;
  }
  uint32_t folded(const llvm::SCEVNAryExpr *all, uint32_t op) {
    return fold(all, [&](uint32_t a, uint32_t b) { return nodes_.binary(op, a, b); });
  }
  uint32_t least(const llvm::SCEVNAryExpr *all, uint32_t less) {
    return fold(all, [&](uint32_t a, uint32_t b) { return nodes_.least(less, a, b); });
  }
  uint32_t greatest(const llvm::SCEVNAryExpr *all, uint32_t less) {
    return fold(all, [&](uint32_t a, uint32_t b) { return nodes_.greatest(less, a, b); });
  }

  Expressions &of_;
  Nodes &nodes_;
};

uint32_t Expressions::of_evolution(const llvm::SCEV *value) {
  return OfEvolution(*this).visit(value);
}

uint32_t Expressions::left(llvm::Instruction *instruction) {
  const llvm::SCEV *evolution = evolution_.isSCEVable(instruction->getType())
                                    ? evolution_.getSCEVAtScope(instruction, nullptr)
                                    : nullptr;
  auto *unknown = llvm::dyn_cast_or_null<llvm::SCEVUnknown>(evolution);
  if (!evolution || (unknown && unknown->getValue() == instruction)) {
    const llvm::Loop *loop = loops_.getLoopFor(instruction->getParent());
    if (llvm::isa<llvm::PHINode>(instruction)) return behind_turns(instruction, loop);
    return make(instruction);
  }
  return of_evolution(evolution);
}

// ---- trip counts --------------------------------------------------------------------------------

// NULL: scalar evolution does not know it.
const llvm::SCEV *Expressions::known_trips(const llvm::Loop *loop) {
  const llvm::SCEV *count = evolution_.getBackedgeTakenCount(loop);
  return llvm::isa<llvm::SCEVCouldNotCompute>(count) ? nullptr : count;
}

uint32_t Expressions::trips(const llvm::Loop *loop) {
  if (auto found = trips_.find(loop); found != trips_.end()) return found->second;
  if (const llvm::SCEV *count = known_trips(loop)) return trips_[loop] = of_evolution(count);
  const Stride stride = stride_of(loop);
  return trips_[loop] = stride.counter ? strided(way_of(stride)) : turns_taken(loop);
}

// The test by which the loop is left, in each turn, if it compares integers by their order.
static const llvm::ICmpInst *only_test(const llvm::Loop *loop,
                                       const llvm::DominatorTree &dominators,
                                       const llvm::LoopInfo &loops) {
  llvm::BasicBlock *exiting = only_exit(*loop, dominators, loops);
  auto *branch = exiting ? llvm::dyn_cast<llvm::BranchInst>(exiting->getTerminator()) : nullptr;
  if (!branch || !branch->isConditional()) return nullptr;
  auto *test = llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition());
  const bool orders = test && test->isRelational() && test->getOperand(0)->getType()->isIntegerTy();
  return orders ? test : nullptr;
}

// The test as it holds, or does not, with the loop's counter on its left.
Expressions::Stride Expressions::tested(const llvm::ICmpInst &test, bool holds,
                                        const llvm::Loop *loop) {
  Stride stride;
  stride.stays = holds ? test.getPredicate() : test.getInversePredicate();
  const llvm::SCEV *counter = evolution_.getSCEV(test.getOperand(0));
  stride.end = evolution_.getSCEV(test.getOperand(1));
  if (evolution_.isLoopInvariant(counter, loop)) {
    std::swap(counter, stride.end);
    stride.stays = llvm::CmpInst::getSwappedPredicate(stride.stays);
  }
  auto *evolves = llvm::dyn_cast<llvm::SCEVAddRecExpr>(counter);
  if (evolves && evolves->getLoop() == loop && evolves->isAffine() &&
      evolution_.isLoopInvariant(stride.end, loop))
    stride.counter = evolves;
  return stride;
}

Expressions::Stride Expressions::stride_of(const llvm::Loop *loop) {
  const llvm::ICmpInst *test = only_test(loop, dominators_, loops_);
  if (!test) return {};
  auto *branch = llvm::cast<llvm::BranchInst>(loop->getExitingBlock()->getTerminator());
  return tested(*test, loop->contains(branch->getSuccessor(0)), loop);
}

Expressions::Way Expressions::way_of(const Stride &stride) {
  auto stays = stride.stays;
  Way way{of_evolution(stride.counter->getStart()), of_evolution(stride.end), 0, 0, false};
  way.step = of_evolution(stride.counter->getStepRecurrence(evolution_));
  const unsigned width = nodes_.bits(way.start);
  way.top = nodes_.constant(~uint64_t{0} >> (64 - width), width);
  auto inverted = [&](uint32_t node) { return nodes_.binary(CLINST_SUB, way.top, node); };
  if (llvm::ICmpInst::isGT(stays) || llvm::ICmpInst::isGE(stays)) {
    way.start = inverted(way.start);
    way.end = inverted(way.end);
    way.step = nodes_.binary(CLINST_SUB, nodes_.constant(0, width), way.step);
    stays = llvm::CmpInst::getSwappedPredicate(stays);
  }
  if (llvm::CmpInst::isSigned(stays)) {
    const uint32_t sign = nodes_.constant(uint64_t{1} << (width - 1), width);
    way.start = nodes_.binary(CLINST_ADD, way.start, sign);  // ranges stay ranges
    way.end = nodes_.binary(CLINST_ADD, way.end, sign);
  }
  way.reaches_end = llvm::ICmpInst::isLE(stays);
  return way;
}

uint32_t Expressions::moves(const Way &way) {
  return nodes_.compared(CLINST_ULESS, nodes_.constant(0, nodes_.bits(way.step)), way.step);
}

// For `for (i = start; i < end; i += step)` and the like, if i does not wrap round before the end.
uint32_t Expressions::strided(const Way &way) {
  const unsigned width = nodes_.bits(way.start);
  const uint32_t zero = nodes_.constant(0, width), one = nodes_.constant(1, width);
  const uint32_t again = way.reaches_end
                             ? nodes_.inverse(nodes_.compared(CLINST_ULESS, way.end, way.start))
                             : nodes_.compared(CLINST_ULESS, way.start, way.end);
  const uint32_t last = way.reaches_end ? way.end : nodes_.binary(CLINST_SUB, way.end, one);
  const uint32_t length = nodes_.binary(CLINST_SUB, last, way.start);
  const uint32_t count =
      nodes_.binary(CLINST_ADD, nodes_.binary(CLINST_UDIV, length, way.step), one);
  const uint32_t ends = nodes_.inverse(nodes_.compared(
      CLINST_ULESS, nodes_.binary(CLINST_SUB, way.top, way.step), last));  // last + step <= top
  return nodes_.choice(again, nodes_.provided(nodes_.both(moves(way), ends), count), zero);
}

// ---- turn by turn -------------------------------------------------------------------------------

namespace {

// How many turns a value of the loop can be halved or doubled until it no longer changes; 0: none.
unsigned most_turns(const llvm::Loop &loop) {
  using namespace llvm::PatternMatch;
  unsigned most = 0;
  for (llvm::PHINode &phi : loop.getHeader()->phis()) {
    if (!phi.getType()->isIntegerTy()) continue;
    Value *next = phi.getIncomingValueForBlock(loop.getLoopLatch());
    const llvm::APInt *by;
    const bool shifts = match(next, m_Shift(m_Specific(&phi), m_APInt(by))) && !by->isZero();
    const bool scales = (match(next, m_UDiv(m_Specific(&phi), m_APInt(by))) ||
                         match(next, m_SDiv(m_Specific(&phi), m_APInt(by))) ||
                         match(next, m_Mul(m_Specific(&phi), m_APInt(by)))) &&
                        by->ugt(1);
    if (shifts || scales) most = std::max(most, phi.getType()->getIntegerBitWidth());
  }
  return most;
}

}  // namespace

Expressions::Turns &Expressions::turns_of(const llvm::Loop *loop) {
  if (auto found = turns_.find(loop); found != turns_.end()) return found->second;
  const bool is_simple = loop->isInnermost() && loop->getLoopLatch() && loop->getLoopPredecessor();
  const unsigned most = is_simple ? most_turns(*loop) : 0;
  if (!most) throw NotKnown();
  Turns &turns = turns_[loop];
  turns.all.resize(most + 1);
  llvm::SmallVector<llvm::Loop::Edge, 4> exits;
  loop->getExitEdges(exits);
  for (Turn &turn : turns.all) {
    turn.loop = loop;
    turn.before = &turn == &turns.all.front() ? nullptr : &turn - 1;
    InTurn in(*this, &turn);
    uint32_t ends = nodes_.constant(0, 1);
    for (const auto &exit : exits) ends = nodes_.either(ends, edge(exit.first, exit.second));
    turns.ends.push_back(ends);
  }
  return turns;
}

// What `of` gives in the turn in which the loop is left.
template <class Of>
uint32_t Expressions::at_exit(const llvm::Loop *loop, Of &&of) {
  Turns &turns = turns_of(loop);
  std::vector<uint32_t> values;
  for (Turn &turn : turns.all) {
    InTurn in(*this, &turn);
    values.push_back(of(values.size()));
  }
  uint32_t result = nodes_.provided(turns.ends.back(), values.back());
  for (size_t t = values.size() - 1; t-- > 0;)
    result = nodes_.choice(turns.ends[t], values[t], result);
  return result;
}

uint32_t Expressions::behind_turns(llvm::Instruction *instruction, const llvm::Loop *loop) {
  if (!loop->isOutermost()) throw NotKnown();  // it begins with what an earlier entry left
  return at_exit(loop, [&](size_t) { return value(instruction); });
}

// Whether the loop is left by this edge.
uint32_t Expressions::leaves(llvm::BasicBlock *from, llvm::BasicBlock *to, const llvm::Loop *loop) {
  return at_exit(loop, [&](size_t) { return edge(from, to); });
}

uint32_t Expressions::turns_taken(const llvm::Loop *loop) {
  return at_exit(loop, [&](size_t number) { return nodes_.constant(number, 32); });
}

uint32_t Expressions::in_header(llvm::PHINode &phi) {
  const llvm::Loop *loop = turn_->loop;
  if (!turn_->before) return value(phi.getIncomingValueForBlock(loop->getLoopPredecessor()));
  InTurn in(*this, turn_->before);
  return value(phi.getIncomingValueForBlock(loop->getLoopLatch()));
}

}  // namespace clinst
