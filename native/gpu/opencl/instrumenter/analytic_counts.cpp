// SPDX-License-Identifier: Apache-2.0
#include "analytic_counts.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "mix.h"
#include "trip_counts.h"

namespace clinst {
namespace {

using llvm::BasicBlock;
using llvm::Value;

constexpr size_t kMostNodes = 2000;

struct NotKnown {};  // the value depends on more than the launch

// Expressions as a list of unique nodes, operands before users.
class Nodes {
 public:
  uint32_t constant(uint64_t value, unsigned bits) {
    return make({CLINST_CONSTANT, bits, 0, 0, 0, value});
  }
  uint32_t make(const Node &node) {
    auto key = std::make_tuple(node.op, node.bits, node.a, node.b, node.c, node.value);
    auto [at, fresh] = known_.try_emplace(key, list_.size());
    if (fresh) list_.push_back(node);
    if (list_.size() > kMostNodes) throw NotKnown();
    return at->second;
  }
  bool is(uint32_t node, uint64_t value) const {
    return list_[node].op == CLINST_CONSTANT && list_[node].value == value;
  }
  uint32_t both(uint32_t a, uint32_t b) {
    if (is(a, 1) || is(b, 0)) return b;
    if (is(b, 1) || is(a, 0)) return a;
    return make({CLINST_AND, 1, a, b, 0, 0});
  }
  uint32_t either(uint32_t a, uint32_t b) {
    if (is(a, 0) || is(b, 1)) return b;
    if (is(b, 0) || is(a, 1)) return a;
    return make({CLINST_OR, 1, a, b, 0, 0});
  }
  uint32_t inverse(uint32_t a) { return make({CLINST_XOR, 1, a, constant(1, 1), 0, 0}); }
  uint32_t choice(uint32_t condition, uint32_t a, uint32_t b) {
    if (a == b || is(condition, 1)) return a;
    if (is(condition, 0)) return b;
    return make({CLINST_SELECT, list_[a].bits, condition, a, b, 0});
  }
  std::vector<Node> take() { return std::move(list_); }

 private:
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t> known_;
  std::vector<Node> list_;
};

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

std::optional<uint32_t> query_of(llvm::StringRef name) {
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
  auto found = queries.find(name.str());
  if (found == queries.end()) return std::nullopt;
  return found->second;
}

class Expressions {
 public:
  Expressions(llvm::Function &function, uint32_t n_args)
      : n_args_(n_args), dominators_(function), loops_(dominators_), behind_(function) {}

  uint32_t value(Value *value) {
    if (auto found = values_.find(value); found != values_.end()) return found->second;
    if (!value->getType()->isIntegerTy()) throw NotKnown();
    if (value->getType()->getIntegerBitWidth() > 64) throw NotKnown();
    if (!under_way_.insert(value).second) throw NotKnown();  // a cycle
    uint32_t node = make(value);
    under_way_.erase(value);
    return values_[value] = node;
  }
  std::vector<Node> take() { return nodes_.take(); }

 private:
  unsigned bits(Value *value) { return value->getType()->getIntegerBitWidth(); }

  uint32_t make(Value *value) {
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
      return nodes_.make(
          {*op, bits(value), operand(instruction, 0), operand(instruction, 1), 0, 0});
    }
    switch (instruction->getOpcode()) {
      case llvm::Instruction::Freeze:
        return operand(instruction, 0);
      case llvm::Instruction::Trunc:
      case llvm::Instruction::ZExt:
        return nodes_.make({CLINST_ZEXT, bits(value), operand(instruction, 0), 0, 0, 0});
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
  uint32_t operand(llvm::Instruction *instruction, unsigned n) {
    return value(instruction->getOperand(n));
  }

  uint32_t compared(const llvm::ICmpInst &compare) {
    uint32_t a = value(compare.getOperand(0)), b = value(compare.getOperand(1));
    auto less = [&](uint32_t op, uint32_t x, uint32_t y) {
      return nodes_.make({op, 1, x, y, 0, 0});
    };
    switch (compare.getPredicate()) {
      case llvm::CmpInst::ICMP_EQ:
        return less(CLINST_EQUAL, a, b);
      case llvm::CmpInst::ICMP_NE:
        return nodes_.inverse(less(CLINST_EQUAL, a, b));
      case llvm::CmpInst::ICMP_ULT:
        return less(CLINST_ULESS, a, b);
      case llvm::CmpInst::ICMP_UGT:
        return less(CLINST_ULESS, b, a);
      case llvm::CmpInst::ICMP_UGE:
        return nodes_.inverse(less(CLINST_ULESS, a, b));
      case llvm::CmpInst::ICMP_ULE:
        return nodes_.inverse(less(CLINST_ULESS, b, a));
      case llvm::CmpInst::ICMP_SLT:
        return less(CLINST_SLESS, a, b);
      case llvm::CmpInst::ICMP_SGT:
        return less(CLINST_SLESS, b, a);
      case llvm::CmpInst::ICMP_SGE:
        return nodes_.inverse(less(CLINST_SLESS, a, b));
      case llvm::CmpInst::ICMP_SLE:
        return nodes_.inverse(less(CLINST_SLESS, b, a));
      default:
        throw NotKnown();
    }
  }

  uint32_t called(llvm::CallBase &call) {
    if (auto *extreme = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&call)) {
      uint32_t a = value(extreme->getLHS()), b = value(extreme->getRHS());
      uint32_t op = extreme->isSigned() ? CLINST_SLESS : CLINST_ULESS;
      uint32_t less = nodes_.make({op, 1, a, b, 0, 0});
      bool least = extreme->getIntrinsicID() == llvm::Intrinsic::smin ||
                   extreme->getIntrinsicID() == llvm::Intrinsic::umin;
      return least ? nodes_.choice(less, a, b) : nodes_.choice(less, b, a);
    }
    const llvm::Function *callee = call.getCalledFunction();
    if (!callee || call.arg_size() != 1) throw NotKnown();
    auto query = query_of(builtin_name(callee->getName()));
    auto *dimension = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(0));
    if (!query || !dimension || dimension->getZExtValue() > 2) throw NotKnown();
    return nodes_.make({CLINST_QUERY, bits(&call), *query,
                        static_cast<uint32_t>(dimension->getZExtValue()), 0, 0});
  }

  // The values of a PHI node under the conditions of their incoming edges.
  uint32_t merged(llvm::PHINode &phi) {
    BasicBlock *block = phi.getParent();
    if (loops_.getLoopFor(block)) throw NotKnown();
    std::map<const llvm::Loop *, Value *> left;  // a loop exits with one value
    std::optional<uint32_t> result;
    for (unsigned i = 0; i < phi.getNumIncomingValues(); i++) {
      if (const llvm::Loop *loop = outermost(phi.getIncomingBlock(i))) {
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

  const llvm::Loop *outermost(BasicBlock *block) {
    const llvm::Loop *loop = loops_.getLoopFor(block);
    return loop ? loop->getOutermostLoop() : nullptr;
  }

  // The condition under which control passes between blocks outside loops. A loop counts as one
  // block with exactly one exit.
  uint32_t edge(BasicBlock *from, BasicBlock *to) {
    if (const llvm::Loop *loop = outermost(from)) {
      if (loop->getUniqueExitBlock() != to) throw NotKnown();
      return reached(loop->getHeader());
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
      uint32_t equal = nodes_.make({CLINST_EQUAL, 1, of, number, 0, 0});
      uint32_t &side = one.getCaseSuccessor() == to ? taken : other;
      side = nodes_.either(side, equal);
    }
    if (choice->getDefaultDest() == to) taken = nodes_.inverse(other);
    return nodes_.both(before, taken);
  }

  uint32_t reached(BasicBlock *block) {
    if (auto found = reached_.find(block); found != reached_.end()) return found->second;
    if (!under_way_.insert(block).second) throw NotKnown();  // an irreducible cycle
    uint32_t node = reach(block);
    under_way_.erase(block);
    return reached_[block] = node;
  }
  uint32_t reach(BasicBlock *block) {
    if (block->isEntryBlock()) return nodes_.constant(1, 1);
    const llvm::Loop *loop = outermost(block);
    if (loop && loop->getHeader() != block) throw NotKnown();
    BasicBlock *before = dominators_.getNode(block)->getIDom()->getBlock();
    if (const llvm::Loop *around = outermost(before)) before = around->getHeader();
    if (behind_.dominates(block, before)) return reached(before);
    uint32_t result = nodes_.constant(0, 1);
    std::set<const void *> seen;
    for (BasicBlock *from : predecessors(block)) {
      const llvm::Loop *other = outermost(from);
      if (loop && other == loop) continue;
      if (!seen.insert(other ? static_cast<const void *>(other) : from).second) continue;
      result = nodes_.either(result, edge(from, block));
    }
    return result;
  }

  uint32_t n_args_;
  llvm::DominatorTree dominators_;
  llvm::LoopInfo loops_;
  llvm::PostDominatorTree behind_;
  Nodes nodes_;
  llvm::DenseMap<Value *, uint32_t> values_;
  llvm::DenseMap<BasicBlock *, uint32_t> reached_;
  std::set<const void *> under_way_;
};

}  // namespace

llvm::CallInst *observe(llvm::Function &function, const std::vector<Slot> &slots) {
  llvm::ReturnInst *end = only_return(function);
  if (!end || slots.empty()) return nullptr;
  llvm::IRBuilder<> builder(end);
  std::vector<Value *> values;
  for (const Slot &slot : slots) {
    values.push_back(builder.CreateLoad(slot.value->getAllocatedType(), slot.value, kCounterName));
  }
  auto *type = llvm::FunctionType::get(builder.getVoidTy(), true);
  auto *observer = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                          "xpuprof.observe", function.getParent());
  return builder.CreateCall(observer, values);
}

void find_analytic_counts(llvm::CallInst *observer, const std::vector<Slot> &slots,
                          const Warps &warps, Kernel *kernel) {
  if (!observer) return;
  try {
    Expressions expressions(*observer->getFunction(), kernel->n_args);
    std::vector<Output> outputs(kernel->n_probes);
    for (size_t s = 0; s < slots.size(); s++) {
      uint32_t node = expressions.value(observer->getArgOperand(s));
      for (size_t field = 0; field < slots[s].probes.size(); field++) {
        unsigned width = slots[s].bits == 64 ? 64 : warps.field_bits();
        outputs[slots[s].probes[field]] = {node, static_cast<uint32_t>(field) * width, width};
      }
    }
    kernel->nodes = expressions.take();
    kernel->outputs = std::move(outputs);
  } catch (const NotKnown &) {
    // The kernel counts for itself.
  }
  llvm::Function *callee = observer->getCalledFunction();
  observer->eraseFromParent();
  callee->eraseFromParent();
}

}  // namespace clinst
