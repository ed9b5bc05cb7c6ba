#include "exit.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <functional>

#include "request.h"
#include "signature.h"

namespace clinst {
namespace {

using llvm::Value;

constexpr uint32_t kLocalFence = 1;  // CLK_LOCAL_MEM_FENCE

llvm::ReturnInst *only_return(llvm::Function &function) {
  for (llvm::BasicBlock &block : function) {
    if (auto *end = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator())) return end;
  }
  return nullptr;
}

class Exit {
 public:
  Exit(llvm::Function &function, llvm::ReturnInst *end, bool non_uniform)
      : function_(function), b_(end), non_uniform_(non_uniform) {
    for (int d = 0; d < 3; d++) {
      local_[d] = query("get_local_size", d);
      enqueued_[d] = non_uniform ? query("get_enqueued_local_size", d) : local_[d];
      groups_[d] = query("get_num_groups", d);
    }
    lid_ = linear("get_local_id", local_);
    group_ = linear("get_group_id", groups_);
    size_ = product(local_);
    warps_ = warps(product(enqueued_));
  }

  void header() {
    when(b_.CreateICmpEQ(b_.CreateOr(lid_, group_), number(0)), [&] {
      for (int d = 0; d < 3; d++) {
        store_counter(number(d), enqueued_[d]);
        store_counter(number(3 + d), groups_[d]);
      }
    });
  }

  void counts(const std::vector<llvm::AllocaInst *> &counters) {
    for (size_t chunk = 0; chunk < counters.size(); chunk += kScratchProbes) {
      size_t end = std::min<size_t>(counters.size(), chunk + kScratchProbes);
      if (chunk) barrier();  // the leaders have read what the slots held before
      for (size_t p = chunk; p < end; p++) {
        Value *count = b_.CreateLoad(b_.getInt64Ty(), counters[p]);
        b_.CreateStore(count, scratch(p - chunk, lid_));
      }
      barrier();
      when(b_.CreateICmpEQ(b_.CreateAnd(lid_, number(CLINST_WARP - 1)), number(0)),
           [&] { reduce(chunk, end, counters.size()); });
    }
    if (non_uniform_) clear_absent_warps(counters.size());
  }

 private:
  Value *number(uint64_t n) { return b_.getInt64(n); }

  // A work-item function; size_t is as wide as a pointer of the program.
  Value *query(const char *name, int dimension) {
    llvm::Module &module = *function_.getParent();
    auto *size = module.getDataLayout().getIntPtrType(module.getContext());
    std::string mangled = "_Z" + std::to_string(strlen(name)) + name + "j";
    auto callee = module.getOrInsertFunction(mangled, size, b_.getInt32Ty());
    auto *function = llvm::cast<llvm::Function>(callee.getCallee());
    function->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    function->setDoesNotThrow();
    function->setDoesNotAccessMemory();
    auto *call = b_.CreateCall(callee, b_.getInt32(dimension));
    call->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    return b_.CreateZExt(call, b_.getInt64Ty());
  }
  Value *linear(const char *name, Value *const sizes[3]) {
    Value *yz = b_.CreateAdd(query(name, 1), b_.CreateMul(sizes[1], query(name, 2)));
    return b_.CreateAdd(query(name, 0), b_.CreateMul(sizes[0], yz));
  }
  Value *product(Value *const sizes[3]) {
    return b_.CreateMul(b_.CreateMul(sizes[0], sizes[1]), sizes[2]);
  }
  Value *warps(Value *items) {
    return b_.CreateUDiv(b_.CreateAdd(items, number(CLINST_WARP - 1)), number(CLINST_WARP));
  }

  void barrier() {
    llvm::Module &module = *function_.getParent();
    auto callee = module.getOrInsertFunction("_Z7barrierj", b_.getVoidTy(), b_.getInt32Ty());
    auto *function = llvm::cast<llvm::Function>(callee.getCallee());
    function->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    function->setConvergent();
    function->setDoesNotThrow();
    auto *call = b_.CreateCall(callee, b_.getInt32(kLocalFence));
    call->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    call->setConvergent();
  }

  void when(Value *condition, const std::function<void()> &body) {
    llvm::Instruction *after = &*b_.GetInsertPoint();
    llvm::Instruction *then = llvm::SplitBlockAndInsertIfThen(condition, after, false);
    b_.SetInsertPoint(then);
    body();
    b_.SetInsertPoint(after);
  }

  // for (i = from; i < to; i++) body(i); returns the sum of what body gives.
  Value *loop(Value *from, Value *to, const std::function<Value *(Value *)> &body) {
    llvm::Instruction *after = &*b_.GetInsertPoint();
    llvm::BasicBlock *before = after->getParent();
    llvm::BasicBlock *tail = llvm::SplitBlock(before, after);
    auto *inside = llvm::BasicBlock::Create(b_.getContext(), "sum", &function_, tail);
    llvm::cast<llvm::BranchInst>(before->getTerminator())->setSuccessor(0, inside);
    b_.SetInsertPoint(inside);
    llvm::PHINode *i = b_.CreatePHI(b_.getInt64Ty(), 2);
    llvm::PHINode *sum = b_.CreatePHI(b_.getInt64Ty(), 2);
    Value *total = b_.CreateAdd(sum, body(i));
    Value *next = b_.CreateAdd(i, number(1), "", true, true);
    b_.CreateCondBr(b_.CreateICmpULT(next, to), inside, tail);
    i->addIncoming(from, before);
    i->addIncoming(next, inside);
    sum->addIncoming(number(0), before);
    sum->addIncoming(total, inside);
    b_.SetInsertPoint(after);
    return total;
  }

  Value *scratch(size_t slot, Value *item) {
    Value *index = b_.CreateAdd(b_.CreateMul(number(slot), size_), item);
    return b_.CreateGEP(b_.getInt64Ty(), scratch_argument(function_), index);
  }
  void store_counter(Value *index, Value *value) {
    Value *at = b_.CreateAdd(first_argument(function_), index);
    b_.CreateStore(value, b_.CreateGEP(b_.getInt64Ty(), counters_argument(function_), at));
  }
  Value *counter_of_warp(Value *warp_in_group, size_t n_probes) {
    Value *warp = b_.CreateAdd(b_.CreateMul(group_, warps_), warp_in_group);
    return b_.CreateAdd(b_.CreateMul(warp, number(n_probes)), number(CLINST_HEADER_WORDS));
  }

  void reduce(size_t begin, size_t end, size_t n_probes) {
    Value *left = b_.CreateSub(size_, lid_);
    Value *warp_size = number(CLINST_WARP);
    Value *lanes = b_.CreateSelect(b_.CreateICmpULT(left, warp_size), left, warp_size);
    Value *base = counter_of_warp(b_.CreateUDiv(lid_, warp_size), n_probes);
    for (size_t p = begin; p < end; p++) {
      Value *sum = loop(number(0), lanes, [&](Value *lane) -> Value * {
        return b_.CreateLoad(b_.getInt64Ty(), scratch(p - begin, b_.CreateAdd(lid_, lane)));
      });
      store_counter(b_.CreateAdd(base, number(p)), sum);
    }
  }

  // A smaller group has fewer warps than the layout gives it.
  void clear_absent_warps(size_t n_probes) {
    Value *own = b_.CreateMul(warps(size_), number(n_probes));
    Value *all = b_.CreateMul(warps_, number(n_probes));
    Value *absent = b_.CreateAnd(b_.CreateICmpEQ(lid_, number(0)), b_.CreateICmpULT(own, all));
    when(absent, [&] {
      Value *base = counter_of_warp(number(0), n_probes);
      loop(own, all, [&](Value *i) -> Value * {
        store_counter(b_.CreateAdd(base, i), number(0));
        return number(0);
      });
    });
  }

  llvm::Function &function_;
  llvm::IRBuilder<> b_;
  bool non_uniform_;
  Value *local_[3], *enqueued_[3], *groups_[3];
  Value *lid_, *group_;   // linear, of the work-item in its group and of the group
  Value *size_, *warps_;  // work-items of this group, warps of a full group
};

}  // namespace

void write_counts(llvm::Function &function, const std::vector<llvm::AllocaInst *> &counters,
                  bool non_uniform) {
  llvm::ReturnInst *end = only_return(function);
  if (!end) return;  // the kernel never ends, nobody can read its counters
  Exit exit(function, end, non_uniform);
  exit.header();
  if (!counters.empty()) exit.counts(counters);
}

}  // namespace clinst
