// SPDX-License-Identifier: Apache-2.0
#include "expressions.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <optional>
#include <string>

#include "mix.h"

namespace clinst {
namespace {

using llvm::BasicBlock;
using llvm::Value;

std::optional<uint32_t> binary_op(unsigned opcode) {
  using llvm::Instruction;
  static const std::map<unsigned, uint32_t> ops = {
      {Instruction::Add, CLINST_ADD},   {Instruction::Sub, CLINST_SUB},
      {Instruction::Mul, CLINST_MUL},   {Instruction::UDiv, CLINST_UDIV},
      {Instruction::SDiv, CLINST_SDIV}, {Instruction::URem, CLINST_UREM},
      {Instruction::SRem, CLINST_SREM}, {Instruction::And, CLINST_AND},
      {Instruction::Or, CLINST_OR},     {Instruction::Xor, CLINST_XOR},
      {Instruction::Shl, CLINST_SHL},   {Instruction::LShr, CLINST_LSHR},
      {Instruction::AShr, CLINST_ASHR},
  };
  auto found = ops.find(opcode);
  if (found == ops.end()) return std::nullopt;
  return found->second;
}

// Which query of the launch, and the dimension.
std::optional<std::pair<uint32_t, uint32_t>> query_of(const llvm::CallBase &call) {
  static const std::map<std::string, uint32_t> queries = {
      {"get_global_id", CLINST_GLOBAL_ID},
      {"get_local_id", CLINST_LOCAL_ID},
      {"get_group_id", CLINST_GROUP_ID},
      {"get_global_size", CLINST_GLOBAL_SIZE},
      {"get_local_size", CLINST_LOCAL_SIZE},
      {"get_enqueued_local_size", CLINST_ENQUEUED_LOCAL_SIZE},
      {"get_num_groups", CLINST_NUM_GROUPS},
      {"get_global_offset", CLINST_GLOBAL_OFFSET},
  };
  const llvm::Function *callee = call.getCalledFunction();
  if (!callee || call.arg_size() != 1) return std::nullopt;
  auto found = queries.find(builtin_name(callee->getName()).str());
  auto *dimension = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(0));
  if (found == queries.end() || !dimension || dimension->getZExtValue() > 2) return std::nullopt;
  return std::pair(found->second, static_cast<uint32_t>(dimension->getZExtValue()));
}

}  // namespace

Expressions::Expressions(llvm::Function &function, uint32_t n_args,
                         llvm::FunctionAnalysisManager &analyses)
    : n_args_(n_args),
      dominators_(analyses.getResult<llvm::DominatorTreeAnalysis>(function)),
      loops_(analyses.getResult<llvm::LoopAnalysis>(function)),
      evolution_(analyses.getResult<llvm::ScalarEvolutionAnalysis>(function)),
      behind_(function) {}

// What is under way, to notice cycles.
class Expressions::Visit {
 public:
  Visit(Expressions &of, const void *what, const Turn *turn) : of_(of), key_(what, turn) {
    if (!of.under_way_.insert(key_).second) throw NotKnown();
  }
  ~Visit() { of_.under_way_.erase(key_); }
  Visit(const Visit &) = delete;
  Visit &operator=(const Visit &) = delete;

 private:
  Expressions &of_;
  std::pair<const void *, const Turn *> key_;
};

void hoist_queries(llvm::Function &function) {
  llvm::Instruction *first = &*function.getEntryBlock().getFirstInsertionPt();
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call && call != first && query_of(*call))
      call->moveBefore(*first->getParent(), first->getIterator());
  }
}

// The width of which the program uses the value, if that is less than its own.
static unsigned used_bits(const llvm::PHINode &phi) {
  using namespace llvm::PatternMatch;
  const unsigned width = phi.getType()->getIntegerBitWidth();
  unsigned most = 0;
  for (const llvm::User *user : phi.users()) {
    const llvm::APInt *mask, *shift;
    if (llvm::isa<llvm::TruncInst>(user))
      most = std::max(most, user->getType()->getIntegerBitWidth());
    else if (match(user, m_And(m_Specific(&phi), m_APInt(mask))) && mask->isMask())
      most = std::max(most, mask->getActiveBits());
    else if (match(user, m_Shl(m_Specific(&phi), m_APInt(shift))) && shift->ult(width))
      most = std::max(most, width - static_cast<unsigned>(shift->getZExtValue()));
    else
      return 0;
  }
  return most < width ? most : 0;
}

static void narrow(llvm::PHINode &phi, unsigned bits) {
  // The upper bits change, so flags that promise something about them no longer hold.
  for (llvm::User *user : phi.users())
    llvm::cast<llvm::Instruction>(user)->dropPoisonGeneratingFlags();
  llvm::Type *type = llvm::Type::getIntNTy(phi.getContext(), bits);
  llvm::PHINode *narrowed = llvm::IRBuilder<>(&phi).CreatePHI(type, phi.getNumIncomingValues());
  for (unsigned i = 0; i < phi.getNumIncomingValues(); i++) {
    llvm::IRBuilder<> builder(phi.getIncomingBlock(i)->getTerminator());
    narrowed->addIncoming(builder.CreateTrunc(phi.getIncomingValue(i), type),
                          phi.getIncomingBlock(i));
  }
  llvm::IRBuilder<> builder(&*phi.getParent()->getFirstInsertionPt());
  phi.replaceAllUsesWith(builder.CreateZExt(narrowed, phi.getType()));
  phi.eraseFromParent();
}

void narrow_variables(llvm::Function &function) {
  for (llvm::BasicBlock &block : function) {
    for (llvm::PHINode &phi : llvm::make_early_inc_range(block.phis())) {
      if (!phi.getType()->isIntegerTy()) continue;
      if (const unsigned bits = used_bits(phi)) narrow(phi, bits);
    }
  }
}

uint32_t Expressions::value(Value *value) {
  auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
  Turn *turn = instruction && in_turn(instruction->getParent()) ? turn_ : nullptr;
  auto &known = turn ? turn->values : values_;
  if (instruction && !turn && varies_around(instruction)) throw NotKnown();
  if (auto found = known.find(value); found != known.end()) return found->second;
  if (!value->getType()->isIntegerTy() || bits(value) > 64) throw NotKnown();
  Visit visit(*this, value, turn);
  const bool behind_loop = instruction && !turn && loops_.getLoopFor(instruction->getParent());
  const uint32_t node = behind_loop ? left(instruction) : make(value);
  return known[value] = node;
}

bool Expressions::varies_around(llvm::Instruction *instruction) {
  const llvm::Loop *around = turn_ ? turn_->loop->getOutermostLoop() : nullptr;
  if (!around || !around->contains(instruction)) return false;
  return !evolution_.isSCEVable(instruction->getType()) ||
         !evolution_.isLoopInvariant(evolution_.getSCEV(instruction), around);
}

uint32_t Expressions::make(Value *value) {
  if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value)) {
    return nodes_.constant(constant->getZExtValue(), bits(value));
  }
  if (auto *argument = llvm::dyn_cast<llvm::Argument>(value)) {
    if (argument->getArgNo() >= n_args_ || bits(value) < 8) throw NotKnown();
    return nodes_.make({CLINST_ARGUMENT, bits(value), 0, 0, 0, argument->getArgNo()});
  }
  if (auto *phi = llvm::dyn_cast<llvm::PHINode>(value)) return merged(*phi);
  if (auto *call = llvm::dyn_cast<llvm::CallBase>(value)) return called(*call);
  auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (!instruction) throw NotKnown();
  if (auto op = binary_op(instruction->getOpcode())) {
    const uint32_t a = operand(instruction, 0);
    return nodes_.binary(*op, a, operand(instruction, 1));
  }
  switch (instruction->getOpcode()) {
    case llvm::Instruction::Freeze:
      return operand(instruction, 0);
    case llvm::Instruction::Trunc:
    case llvm::Instruction::ZExt:
      return nodes_.resized(operand(instruction, 0), bits(value));
    case llvm::Instruction::SExt:
      return nodes_.make({CLINST_SEXT, bits(value), operand(instruction, 0), 0, 0, 0});
    case llvm::Instruction::ICmp:
      return compared(*llvm::cast<llvm::ICmpInst>(instruction));
    case llvm::Instruction::Select:
      return nodes_.choice(operand(instruction, 0), operand(instruction, 1),
                           operand(instruction, 2));
    default:
      throw NotKnown();
  }
}

uint32_t Expressions::compared(const llvm::ICmpInst &compare) {
  uint32_t a = value(compare.getOperand(0)), b = value(compare.getOperand(1));
  switch (compare.getPredicate()) {
    case llvm::CmpInst::ICMP_EQ:
      return nodes_.compared(CLINST_EQUAL, a, b);
    case llvm::CmpInst::ICMP_NE:
      return nodes_.inverse(nodes_.compared(CLINST_EQUAL, a, b));
    case llvm::CmpInst::ICMP_ULT:
      return nodes_.compared(CLINST_ULESS, a, b);
    case llvm::CmpInst::ICMP_UGT:
      return nodes_.compared(CLINST_ULESS, b, a);
    case llvm::CmpInst::ICMP_UGE:
      return nodes_.inverse(nodes_.compared(CLINST_ULESS, a, b));
    case llvm::CmpInst::ICMP_ULE:
      return nodes_.inverse(nodes_.compared(CLINST_ULESS, b, a));
    case llvm::CmpInst::ICMP_SLT:
      return nodes_.compared(CLINST_SLESS, a, b);
    case llvm::CmpInst::ICMP_SGT:
      return nodes_.compared(CLINST_SLESS, b, a);
    case llvm::CmpInst::ICMP_SGE:
      return nodes_.inverse(nodes_.compared(CLINST_SLESS, a, b));
    case llvm::CmpInst::ICMP_SLE:
      return nodes_.inverse(nodes_.compared(CLINST_SLESS, b, a));
    default:
      throw NotKnown();
  }
}

uint32_t Expressions::called(llvm::CallBase &call) {
  if (auto *extreme = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&call)) {
    uint32_t a = value(extreme->getLHS()), b = value(extreme->getRHS());
    uint32_t op = extreme->isSigned() ? CLINST_SLESS : CLINST_ULESS;
    bool least = extreme->getIntrinsicID() == llvm::Intrinsic::smin ||
                 extreme->getIntrinsicID() == llvm::Intrinsic::umin;
    return least ? nodes_.least(op, a, b) : nodes_.greatest(op, a, b);
  }
  auto query = query_of(call);
  if (!query) throw NotKnown();
  return nodes_.make({CLINST_QUERY, bits(&call), query->first, query->second, 0, 0});
}

// The values of a PHI node under the conditions of their incoming edges.
uint32_t Expressions::merged(llvm::PHINode &phi) {
  BasicBlock *block = phi.getParent();
  if (in_turn(block) && turn_->loop->getHeader() == block) return in_header(phi);
  std::map<const llvm::Loop *, Value *> left;  // a loop exits with one value
  std::optional<uint32_t> result;
  for (unsigned i = 0; i < phi.getNumIncomingValues(); i++) {
    const llvm::Loop *loop = outermost(phi.getIncomingBlock(i));
    if (loop && loop->getUniqueExitBlock()) {
      auto [at, fresh] = left.try_emplace(loop, phi.getIncomingValue(i));
      if (!fresh && at->second != phi.getIncomingValue(i)) throw NotKnown();
      if (!fresh) continue;
    }
    uint32_t one = value(phi.getIncomingValue(i));
    result = result ? nodes_.choice(edge(phi.getIncomingBlock(i), block), one, *result) : one;
  }
  if (!result) throw NotKnown();
  return *result;
}

const llvm::Loop *Expressions::outermost(BasicBlock *block) {
  const llvm::Loop *loop = in_turn(block) ? nullptr : loops_.getLoopFor(block);
  return loop ? loop->getOutermostLoop() : nullptr;
}

// The condition under which control passes between blocks outside loops.
uint32_t Expressions::edge(BasicBlock *from, BasicBlock *to) {
  if (const llvm::Loop *loop = outermost(from)) {
    const uint32_t enters = reached(loop->getHeader());
    return loop->getUniqueExitBlock() == to ? enters : nodes_.both(enters, leaves(from, to, loop));
  }
  uint32_t before = reached(from);
  llvm::Instruction *end = from->getTerminator();
  if (auto *jump = llvm::dyn_cast<llvm::BranchInst>(end)) {
    if (jump->isUnconditional() || jump->getSuccessor(0) == jump->getSuccessor(1)) return before;
    uint32_t holds = value(jump->getCondition());
    return nodes_.both(before, jump->getSuccessor(0) == to ? holds : nodes_.inverse(holds));
  }
  auto *choice = llvm::dyn_cast<llvm::SwitchInst>(end);
  if (!choice) throw NotKnown();
  uint32_t of = value(choice->getCondition());
  uint32_t taken = nodes_.constant(0, 1), other = taken;
  for (auto &one : choice->cases()) {
    uint32_t number =
        nodes_.constant(one.getCaseValue()->getZExtValue(), bits(choice->getCondition()));
    uint32_t equal = nodes_.compared(CLINST_EQUAL, of, number);
    uint32_t &side = one.getCaseSuccessor() == to ? taken : other;
    side = nodes_.either(side, equal);
  }
  if (choice->getDefaultDest() == to) taken = nodes_.inverse(other);
  return nodes_.both(before, taken);
}

uint32_t Expressions::reached(BasicBlock *block) {
  Turn *turn = in_turn(block) ? turn_ : nullptr;
  auto &known = turn ? turn->reached : reached_;
  if (auto found = known.find(block); found != known.end()) return found->second;
  Visit visit(*this, block, turn);  // cycles here are irreducible
  const uint32_t node = reach(block);
  return known[block] = node;
}

uint32_t Expressions::reach(BasicBlock *block) {
  const bool within = in_turn(block);
  if (block->isEntryBlock() || (within && turn_->loop->getHeader() == block))
    return nodes_.constant(1, 1);
  const llvm::Loop *loop = outermost(block);
  if (loop && loop->getHeader() != block) throw NotKnown();
  BasicBlock *before = dominators_.getNode(block)->getIDom()->getBlock();
  if (const llvm::Loop *around = outermost(before)) before = around->getHeader();
  // Not within a turn: what all ways out of the loop pass may be passed in a later turn.
  if (!within && behind_.dominates(block, before)) return reached(before);
  uint32_t result = nodes_.constant(0, 1);
  std::set<const void *> seen;
  for (BasicBlock *from : predecessors(block)) {
    const llvm::Loop *other = outermost(from);
    if (loop && other == loop) continue;
    const bool one_exit = other && other->getUniqueExitBlock();
    if (!seen.insert(one_exit ? static_cast<const void *>(other) : from).second) continue;
    result = nodes_.either(result, edge(from, block));
  }
  return result;
}

}  // namespace clinst
