// SPDX-License-Identifier: Apache-2.0
#include "exit_code.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/CodeExtractor.h>

#include "signature.h"
#include "uniform.h"

namespace clinst {

using llvm::Value;
using Blocks = llvm::SmallSetVector<llvm::BasicBlock *, 16>;

static Blocks blocks_between(llvm::BasicBlock *begin, llvm::BasicBlock *end) {
  Blocks blocks;
  blocks.insert(begin);
  for (size_t i = 0; i < blocks.size(); i++) {
    for (llvm::BasicBlock *next : successors(blocks[i])) {
      if (next != end) blocks.insert(next);
    }
  }
  return blocks;
}

static void move_out(const Blocks &blocks) {
  llvm::CodeExtractorAnalysisCache cache(*blocks[0]->getParent());
  llvm::Function *function = llvm::CodeExtractor(blocks.getArrayRef()).extractCodeRegion(cache);
  if (!function) return;
  function->addFnAttr(llvm::Attribute::NoInline);
  function->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  for (llvm::User *user : function->users()) {
    llvm::cast<llvm::CallInst>(user)->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  }
}

llvm::CallInst *ExitCode::call_together(const std::string &mangled, llvm::Type *type,
                                        llvm::ArrayRef<Value *> arguments) {
  llvm::CallInst *call = call_built_in(b_, mangled, type, arguments);
  call->getCalledFunction()->setConvergent();
  call->setConvergent();
  return call;
}

Value *ExitCode::items_a_row(const char *size) {
  return warps_.sub_groups ? query(size, 0) : product(size);
}

Value *ExitCode::rows(const char *size) {
  return warps_.sub_groups ? b_.CreateMul(query(size, 1), query(size, 2)) : number(1);
}

Value *ExitCode::warps_a_row(Value *items) {
  return b_.CreateUDiv(b_.CreateAdd(items, number(warps_.size - 1)), number(warps_.size));
}

Value *ExitCode::full_warps() {
  const char *size = warps_.non_uniform ? "get_enqueued_local_size" : "get_local_size";
  return b_.CreateMul(warps_a_row(items_a_row(size)), rows(size));
}

Value *ExitCode::counters_of_group() {
  Value *group = linear("get_group_id", "get_num_groups");
  return b_.CreateAdd(b_.CreateMul(b_.CreateMul(group, full_warps()), number(n_probes_)),
                      number(CLINST_HEADER_WORDS));
}

Value *ExitCode::own_warp() {
  if (!warps_.sub_groups) {
    return b_.CreateUDiv(linear("get_local_id", "get_local_size"), number(warps_.size));
  }
  Value *row = b_.CreateAdd(query("get_local_id", 1),
                            b_.CreateMul(query("get_local_size", 1), query("get_local_id", 2)));
  return b_.CreateAdd(b_.CreateMul(row, warps_a_row(items_a_row("get_local_size"))),
                      b_.CreateUDiv(query("get_local_id", 0), number(warps_.size)));
}

void ExitCode::barrier(uint32_t fence) {
  call_together("_Z7barrierj", b_.getVoidTy(), {b_.getInt32(fence)});
}

void ExitCode::by_leader(const std::function<void()> &body) {
  auto first = [&](int dimension) {
    return b_.CreateICmpEQ(query("get_local_id", dimension), number(0));
  };
  when(first(2), [&] { when(first(1), [&] { when(first(0), [&] { apart_if_scalar(body); }); }); });
}

void ExitCode::apart_if_scalar(const std::function<void()> &body) {
  if (!warps_.scalar) return body();
  llvm::Instruction *after = &*b_.GetInsertPoint();
  llvm::BasicBlock *begin = llvm::SplitBlock(after->getParent(), after);
  llvm::BasicBlock *end = llvm::SplitBlock(begin, after);
  b_.SetInsertPoint(begin->getTerminator());
  body();
  move_out(blocks_between(begin, end));
  b_.SetInsertPoint(after);
}

void ExitCode::when(Value *condition, const std::function<void()> &body) {
  llvm::Instruction *after = &*b_.GetInsertPoint();
  llvm::Instruction *then = llvm::SplitBlockAndInsertIfThen(condition, after, false);
  b_.SetInsertPoint(then);
  body();
  b_.SetInsertPoint(after);
}

void ExitCode::loop(Value *from, Value *to, const std::function<void(llvm::PHINode *)> &body) {
  llvm::Instruction *after = &*b_.GetInsertPoint();
  llvm::BasicBlock *before = after->getParent();
  llvm::BasicBlock *tail = llvm::SplitBlock(before, after);
  auto *inside = llvm::BasicBlock::Create(b_.getContext(), "each", &function_, tail);
  llvm::cast<llvm::BranchInst>(before->getTerminator())->setSuccessor(0, inside);
  b_.SetInsertPoint(inside);
  llvm::PHINode *i = b_.CreatePHI(b_.getInt64Ty(), 2);
  llvm::Instruction *end = b_.CreateUnreachable();  // until the body has its blocks
  b_.SetInsertPoint(end);
  body(i);
  b_.SetInsertPoint(end);
  Value *next = b_.CreateAdd(i, number(1), "", true, true);
  llvm::BasicBlock *last = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpULT(next, to), inside, tail);
  end->eraseFromParent();
  i->addIncoming(from, before);
  i->addIncoming(next, last);
  b_.SetInsertPoint(after);
}

Value *ExitCode::place_of_counter(Value *index) {
  Value *at = b_.CreateAdd(first_argument(function_), index);
  return b_.CreateGEP(b_.getInt64Ty(), counters_argument(function_), at);
}

void ExitCode::store_counter(Value *index, Value *value) {
  b_.CreateStore(value, place_of_counter(index));
}

void ExitCode::fields(const Slot &slot, Value *value,
                      const std::function<void(uint32_t, Value *)> &body) {
  unsigned bits = warps_.field_bits();
  for (size_t field = 0; field < slot.probes.size(); field++) {
    Value *count = value;
    if (slot.bits < 64) {
      count = b_.CreateAnd(b_.CreateLShr(value, number(field * bits)), number((1u << bits) - 1));
    }
    body(slot.probes[field], count);
  }
}

void ExitCode::store_fields(const Slot &slot, Value *base, Value *sum) {
  fields(slot, sum, [&](uint32_t probe, Value *count) {
    store_counter(b_.CreateAdd(base, number(probe)), count);
  });
}

void ExitCode::header(Value *warp_size, Value *warps_a_group) {
  Value *group = linear("get_group_id", "get_num_groups");
  when(b_.CreateICmpEQ(group, number(0)), [&] {
    const char *size = warps_.non_uniform ? "get_enqueued_local_size" : "get_local_size";
    for (int d = 0; d < 3; d++) {
      store_counter(number(d), query(size, d));
      store_counter(number(3 + d), query("get_num_groups", d));
    }
    store_counter(number(6), warp_size);
    store_counter(number(7), warps_a_group);
  });
}

std::vector<Value *> ExitCode::factors_of(const std::vector<Multiple> &multiples) {
  std::vector<Value *> factors;
  for (const Multiple &multiple : multiples) factors.push_back(compute(multiple.factor, b_));
  return factors;
}

void ExitCode::store_multiples(const std::vector<Multiple> &multiples) {
  if (multiples.empty()) return;
  const std::vector<Value *> factors = factors_of(multiples);
  Value *items = items_a_row("get_local_size");
  Value *a_row = warps_a_row(items);
  Value *begin = counters_of_group();
  Value *step = b_.CreateMul(a_row, number(n_probes_));
  loop(number(0), rows("get_local_size"), [&](Value *row) {
    Value *of_row = b_.CreateAdd(begin, b_.CreateMul(row, step));
    loop(number(0), a_row, [&](Value *warp) {
      Value *rest = b_.CreateSub(items, b_.CreateMul(warp, number(warps_.size)));
      Value *full = b_.CreateICmpUGE(rest, number(warps_.size));
      store_multiples(multiples, factors,
                      b_.CreateAdd(of_row, b_.CreateMul(warp, number(n_probes_))),
                      b_.CreateSelect(full, number(warps_.size), rest));
    });
  });
}

void ExitCode::store_multiples(const std::vector<Multiple> &multiples,
                               const std::vector<Value *> &factors, Value *base, Value *items) {
  llvm::DenseMap<int32_t, Value *> counts;
  counts[-1] = items;
  for (size_t m = 0; m < multiples.size(); m++) {
    Value *sum = number(0);
    for (const Term &term : multiples[m].of) {
      Value *&count = counts[term.probe];
      if (!count) {
        Value *at = place_of_counter(b_.CreateAdd(base, number(term.probe)));
        count = b_.CreateLoad(b_.getInt64Ty(), at);
      }
      sum = b_.CreateAdd(sum, b_.CreateMul(count, b_.getInt64(int64_t{term.factor})));
    }
    Value *count = b_.CreateMul(sum, factors[m]);
    store_counter(b_.CreateAdd(base, number(multiples[m].probe)), count);
    counts[multiples[m].probe] = count;
  }
}

}  // namespace clinst
