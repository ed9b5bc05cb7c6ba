#include "exit.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "signature.h"

namespace clinst {
namespace {

using llvm::Value;

constexpr uint32_t kLocalFence = 1;  // CLK_LOCAL_MEM_FENCE
constexpr unsigned kWidest = 16;     // elements of the longest OpenCL vector

llvm::ReturnInst *only_return(llvm::Function &function) {
  for (llvm::BasicBlock &block : function) {
    if (auto *end = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator())) return end;
  }
  return nullptr;
}

// Nothing is carried over a barrier in a variable: a runtime that runs the work-items of a group
// in a loop between barriers would have to spill it for every work-item.
class Exit {
 public:
  Exit(llvm::Function &function, llvm::ReturnInst *end, uint32_t n_probes, bool non_uniform)
      : function_(function), b_(end), n_probes_(n_probes), non_uniform_(non_uniform) {}

  void emit(const std::vector<Slot> &slots) {
    size_t begin = 0;
    do {
      size_t end = std::min<size_t>(slots.size(), begin + kScratchSlots);
      std::vector<Slot> chunk(slots.begin() + begin, slots.begin() + end);
      if (begin) barrier();  // the leader has read what the slots held before
      if (!chunk.empty()) publish(chunk);
      barrier();
      by_leader([&] {
        if (!begin) header();
        if (!chunk.empty()) sum_warps(chunk);
      });
      begin = end;
    } while (begin < slots.size());
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
  Value *linear(const char *name, const char *size) {
    Value *yz = b_.CreateAdd(query(name, 1), b_.CreateMul(query(size, 1), query(name, 2)));
    return b_.CreateAdd(query(name, 0), b_.CreateMul(query(size, 0), yz));
  }
  Value *product(const char *name) {
    return b_.CreateMul(b_.CreateMul(query(name, 0), query(name, 1)), query(name, 2));
  }
  const char *full_size() { return non_uniform_ ? "get_enqueued_local_size" : "get_local_size"; }
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

  // One dimension after the other: a runtime's loops over the work-items collapse to their first
  // iteration, which they do not when the three are tested together.
  void by_leader(const std::function<void()> &body) {
    auto first = [&](int dimension) {
      return b_.CreateICmpEQ(query("get_local_id", dimension), number(0));
    };
    when(first(2), [&] { when(first(1), [&] { when(first(0), body); }); });
  }

  // for (i = from; i < to; i++) body(i), with one pass at least.
  void loop(Value *from, Value *to, const std::function<void(llvm::PHINode *)> &body) {
    llvm::Instruction *after = &*b_.GetInsertPoint();
    llvm::BasicBlock *before = after->getParent();
    llvm::BasicBlock *tail = llvm::SplitBlock(before, after);
    auto *inside = llvm::BasicBlock::Create(b_.getContext(), "each", &function_, tail);
    llvm::cast<llvm::BranchInst>(before->getTerminator())->setSuccessor(0, inside);
    b_.SetInsertPoint(inside);
    llvm::PHINode *i = b_.CreatePHI(b_.getInt64Ty(), 2);
    body(i);
    Value *next = b_.CreateAdd(i, number(1), "", true, true);
    llvm::BasicBlock *last = b_.GetInsertBlock();
    b_.CreateCondBr(b_.CreateICmpULT(next, to), inside, tail);
    i->addIncoming(from, before);
    i->addIncoming(next, last);
    b_.SetInsertPoint(after);
  }

  llvm::IntegerType *element(const Slot &slot) { return b_.getIntNTy(slot.bits); }

  // The slot of a work-item: slots lie one behind the other, each as an array over the work-items
  // with 8 bytes of room for every one.
  Value *place(const Slot &slot, size_t index, Value *item) {
    Value *base = b_.CreateGEP(b_.getInt64Ty(), scratch_argument(function_),
                               b_.CreateMul(number(index), product("get_local_size")));
    auto *type = element(slot)->getPointerTo(base->getType()->getPointerAddressSpace());
    return b_.CreateGEP(element(slot), b_.CreateBitCast(base, type), item);
  }

  void publish(const std::vector<Slot> &slots) {
    Value *item = linear("get_local_id", "get_local_size");
    for (size_t s = 0; s < slots.size(); s++) {
      Value *value = b_.CreateLoad(element(slots[s]), slots[s].value);
      b_.CreateStore(value, place(slots[s], s, item));
    }
  }

  void store_counter(Value *index, Value *value) {
    Value *at = b_.CreateAdd(first_argument(function_), index);
    b_.CreateStore(value, b_.CreateGEP(b_.getInt64Ty(), counters_argument(function_), at));
  }

  void header() {
    Value *group = linear("get_group_id", "get_num_groups");
    when(b_.CreateICmpEQ(group, number(0)), [&] {
      for (int d = 0; d < 3; d++) {
        store_counter(number(d), query(full_size(), d));
        store_counter(number(3 + d), query("get_num_groups", d));
      }
    });
  }

  void sum_warps(const std::vector<Slot> &slots) {
    Value *items = product("get_local_size");
    Value *per_group = warps(non_uniform_ ? product(full_size()) : items);
    Value *group = linear("get_group_id", "get_num_groups");
    Value *base = b_.CreateAdd(b_.CreateMul(b_.CreateMul(group, per_group), number(n_probes_)),
                               number(CLINST_HEADER_WORDS));
    Value *full = b_.CreateUDiv(items, number(CLINST_WARP));
    Value *rest = b_.CreateURem(items, number(CLINST_WARP));
    auto counters_of = [&](Value *warp) {
      return b_.CreateAdd(base, b_.CreateMul(warp, number(n_probes_)));
    };
    when(b_.CreateICmpNE(full, number(0)), [&] {
      loop(number(0), full, [&](Value *warp) {
        Value *item = b_.CreateMul(warp, number(CLINST_WARP));
        for (size_t s = 0; s < slots.size(); s++) {
          store_fields(slots[s], counters_of(warp), sum_of_warp(slots[s], s, item));
        }
      });
    });
    when(b_.CreateICmpNE(rest, number(0)), [&] {
      for (size_t s = 0; s < slots.size(); s++) {
        Value *from = b_.CreateMul(full, number(CLINST_WARP));
        store_fields(slots[s], counters_of(full), sum_of_rest(slots[s], s, from, items));
      }
    });
    if (non_uniform_) clear_absent_warps(slots, counters_of, warps(items), per_group);
  }

  // Straight code, 64 bits at a time whatever an element's width: sums of fields do not overflow.
  Value *sum_of_warp(const Slot &slot, size_t index, Value *item) {
    unsigned words = CLINST_WARP * slot.bits / 64, length = std::min(words, kWidest);
    auto *type = llvm::FixedVectorType::get(b_.getInt64Ty(), length);
    Value *first = place(slot, index, item);
    Value *base =
        b_.CreateBitCast(first, type->getPointerTo(first->getType()->getPointerAddressSpace()));
    Value *sum = nullptr;
    for (unsigned part = 0; part < words / length; part++) {
      Value *some = b_.CreateAlignedLoad(type, b_.CreateGEP(type, base, number(part)),
                                         llvm::Align(slot.bits / 8));
      sum = sum ? b_.CreateAdd(sum, some) : some;
    }
    while (length > 2) {  // SPIR-V knows no vector of one
      length /= 2;
      llvm::SmallVector<int, kWidest> low(length), high(length);
      std::iota(low.begin(), low.end(), 0);
      std::iota(high.begin(), high.end(), length);
      sum = b_.CreateAdd(b_.CreateShuffleVector(sum, low), b_.CreateShuffleVector(sum, high));
    }
    sum = b_.CreateAdd(b_.CreateExtractElement(sum, b_.getInt32(0)),
                       b_.CreateExtractElement(sum, b_.getInt32(1)));
    // The elements of a word add up in its highest one.
    for (unsigned shift = slot.bits; shift < 64; shift *= 2) {
      sum = b_.CreateAdd(sum, b_.CreateShl(sum, number(shift)));
    }
    return b_.CreateLShr(sum, number(64 - slot.bits));
  }

  Value *sum_of_rest(const Slot &slot, size_t index, Value *from, Value *to) {
    llvm::PHINode *before;
    Value *sum;
    loop(from, to, [&](llvm::PHINode *item) {
      before = b_.CreatePHI(b_.getInt64Ty(), 2);
      Value *one = b_.CreateLoad(element(slot), place(slot, index, item));
      sum = b_.CreateAdd(before, b_.CreateZExt(one, b_.getInt64Ty()));
    });
    auto *item = llvm::cast<llvm::PHINode>(before->getParent()->begin());
    before->addIncoming(number(0), item->getIncomingBlock(0));
    before->addIncoming(sum, item->getIncomingBlock(1));
    return sum;
  }

  void store_fields(const Slot &slot, Value *base, Value *sum) {
    for (size_t field = 0; field < slot.probes.size(); field++) {
      Value *count = sum;
      if (slot.bits < 64) {
        count = b_.CreateAnd(b_.CreateLShr(sum, number(field * kFieldBits)),
                             number((1u << kFieldBits) - 1));
      }
      store_counter(b_.CreateAdd(base, number(slot.probes[field])), count);
    }
  }

  // A smaller group has fewer warps than the layout gives it.
  void clear_absent_warps(const std::vector<Slot> &slots,
                          const std::function<Value *(Value *)> &counters_of, Value *own,
                          Value *all) {
    when(b_.CreateICmpULT(own, all), [&] {
      loop(own, all, [&](Value *warp) {
        for (const Slot &slot : slots) store_fields(slot, counters_of(warp), number(0));
      });
    });
  }

  llvm::Function &function_;
  llvm::IRBuilder<> b_;
  uint32_t n_probes_;
  bool non_uniform_;
};

}  // namespace

void write_counts(llvm::Function &function, const std::vector<Slot> &slots, uint32_t n_probes,
                  bool non_uniform) {
  llvm::ReturnInst *end = only_return(function);
  if (!end) return;  // the kernel never ends, nobody can read its counters
  Exit(function, end, n_probes, non_uniform).emit(slots);
}

}  // namespace clinst
