// SPDX-License-Identifier: Apache-2.0
#include "exit.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "exit_code.h"
#include "signature.h"
#include "versions.h"

namespace clinst {
namespace {

using llvm::Value;

constexpr unsigned kWidest = 16;  // elements of the longest OpenCL vector

// No variable lives across a barrier: a runtime that runs the work-items of a group in a loop
// between barriers would have to spill it for every work-item.
class LocalMemoryExit : ExitCode {
 public:
  using ExitCode::ExitCode;

  void emit(const std::vector<Slot> &slots, const std::vector<Multiple> &multiples) {
    size_t begin = 0;
    do {
      size_t end = std::min<size_t>(slots.size(), begin + warps_.local_words);
      std::vector<Slot> chunk(slots.begin() + begin, slots.begin() + end);
      if (begin) barrier(kLocalFence);  // the leader has read the previous contents of the slots
      if (!chunk.empty()) publish(chunk);
      barrier(kLocalFence);
      by_leader([&] {
        if (!begin) header(number(warps_.size), full_warps());
        if (!chunk.empty()) sum_warps(chunk);
        if (end == slots.size()) store_multiples(multiples);
      });
      begin = end;
    } while (begin < slots.size());
  }

 private:
  llvm::IntegerType *element(const Slot &slot) { return b_.getIntNTy(slot.bits); }

  // The slot of a work-item: each slot is an array over the work-items with 8 bytes for each; the
  // arrays are consecutive.
  Value *place(const Slot &slot, size_t index, Value *item) {
    Value *base = b_.CreateGEP(b_.getInt64Ty(), scratch_argument(function_),
                               b_.CreateMul(number(index), product("get_local_size")));
    auto *type = pointer_to(element(slot), base->getType()->getPointerAddressSpace());
    return b_.CreateGEP(element(slot), b_.CreateBitCast(base, type), item);
  }

  void publish(const std::vector<Slot> &slots) {
    Value *item = linear("get_local_id", "get_local_size");
    for (size_t s = 0; s < slots.size(); s++) {
      b_.CreateStore(slots[s].result, place(slots[s], s, item));
    }
  }

  void sum_warps(const std::vector<Slot> &slots) {
    Value *base = counters_of_group();
    Value *items = items_a_row("get_local_size");
    if (!warps_.sub_groups) return sum_row(slots, base, number(0), items);
    Value *step = b_.CreateMul(warps_a_row(items), number(n_probes_));
    loop(number(0), rows("get_local_size"), [&](Value *row) {
      sum_row(slots, b_.CreateAdd(base, b_.CreateMul(row, step)), b_.CreateMul(row, items), items);
    });
  }

  // The warps of `items` work-items from `begin` on; their counters begin at `base`.
  void sum_row(const std::vector<Slot> &slots, Value *base, Value *begin, Value *items) {
    Value *full = b_.CreateUDiv(items, number(warps_.size));
    Value *rest = b_.CreateURem(items, number(warps_.size));
    auto counters_of = [&](Value *warp) {
      return b_.CreateAdd(base, b_.CreateMul(warp, number(n_probes_)));
    };
    auto first_of = [&](Value *warp) {
      return b_.CreateAdd(begin, b_.CreateMul(warp, number(warps_.size)));
    };
    when(b_.CreateICmpNE(full, number(0)), [&] {
      loop(number(0), full, [&](Value *warp) {
        Value *item = first_of(warp);
        for (size_t s = 0; s < slots.size(); s++) {
          Value *sum = warps_.size * slots[s].bits < 128
                           ? sum_of_rest(slots[s], s, item, b_.CreateAdd(item, number(warps_.size)))
                           : sum_of_warp(slots[s], s, item);
          store_fields(slots[s], counters_of(warp), sum);
        }
      });
    });
    when(b_.CreateICmpNE(rest, number(0)), [&] {
      for (size_t s = 0; s < slots.size(); s++) {
        Value *sum = sum_of_rest(slots[s], s, first_of(full), b_.CreateAdd(begin, items));
        store_fields(slots[s], counters_of(full), sum);
      }
    });
  }

  // Straight-line code, 64 bits at a time whatever an element's width: sums of fields do not
  // overflow.
  Value *sum_of_warp(const Slot &slot, size_t index, Value *item) {
    unsigned words = warps_.size * slot.bits / 64, length = std::min(words, kWidest);
    auto *type = llvm::FixedVectorType::get(b_.getInt64Ty(), length);
    Value *first = place(slot, index, item);
    Value *base =
        b_.CreateBitCast(first, pointer_to(type, first->getType()->getPointerAddressSpace()));
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
    // The elements of a word are summed in its highest one.
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
};

// Reduces by sub-group operations, for kernels that use sub-groups. Elsewhere this would prevent
// runtimes from vectorising the kernel as they do natively.
class SubGroupExit : ExitCode {
 public:
  using ExitCode::ExitCode;

  void emit(const std::vector<Slot> &slots, const std::vector<Multiple> &multiples) {
    std::vector<Value *> sums;
    for (const Slot &slot : slots) sums.push_back(sum_of(slot));
    Value *own = query("get_sub_group_id");
    when(b_.CreateICmpEQ(query("get_sub_group_local_id"), number(0)), [&] {
      Value *per_group =
          query(warps_.non_uniform ? "get_enqueued_num_sub_groups" : "get_num_sub_groups");
      when(b_.CreateICmpEQ(own, number(0)),
           [&] { header(query("get_max_sub_group_size"), per_group); });
      Value *group = linear("get_group_id", "get_num_groups");
      Value *warp = b_.CreateAdd(b_.CreateMul(group, per_group), own);
      Value *base =
          b_.CreateAdd(b_.CreateMul(warp, number(n_probes_)), number(CLINST_HEADER_WORDS));
      for (size_t s = 0; s < slots.size(); s++) store_fields(slots[s], base, sums[s]);
      store_multiples(multiples, factors_of(multiples), base, query("get_sub_group_size"));
    });
  }

 private:
  Value *sum_of(const Slot &slot) {
    Value *value = slot.result;
    if (slot.bits == 64)
      return call_together("_Z20sub_group_reduce_addm", b_.getInt64Ty(), {value});
    value = b_.CreateZExt(value, b_.getInt32Ty());
    value = call_together("_Z20sub_group_reduce_addj", b_.getInt32Ty(), {value});
    return b_.CreateZExt(value, b_.getInt64Ty());
  }
};

// For work-groups that leave no local memory. By far the most expensive: a work-item adds its
// counts to its warp's counters one by one.
class AtomicExit : ExitCode {
 public:
  using ExitCode::ExitCode;

  void emit(const std::vector<Slot> &slots, const std::vector<Multiple> &multiples) {
    by_leader([&] {
      header(number(warps_.size), full_warps());
      Value *begin = counters_of_group();
      Value *warps =
          b_.CreateMul(warps_a_row(items_a_row("get_local_size")), rows("get_local_size"));
      loop(begin, b_.CreateAdd(begin, b_.CreateMul(warps, number(n_probes_))),
           [&](Value *at) { store_counter(at, number(0)); });
    });
    barrier(kGlobalFence);
    Value *base = b_.CreateAdd(counters_of_group(), b_.CreateMul(own_warp(), number(n_probes_)));
    for (const Slot &slot : slots) {
      fields(slot, b_.CreateZExt(slot.result, b_.getInt64Ty()), [&](uint32_t probe, Value *count) {
        when(b_.CreateICmpNE(count, number(0)),
             [&] { add(b_.CreateAdd(base, number(probe)), count); });
      });
    }
    if (multiples.empty()) return;
    barrier(kGlobalFence);
    by_leader([&] { store_multiples(multiples); });
  }

 private:
  // In two halves with carry: every device has 32-bit addition.
  void add(Value *index, Value *count) {
    Value *low = b_.CreateTrunc(count, b_.getInt32Ty());
    Value *high = b_.CreateTrunc(b_.CreateLShr(count, number(32)), b_.getInt32Ty());
    Value *sum = b_.CreateAdd(add_half(index, 0, low), low);
    Value *carry = b_.CreateZExt(b_.CreateICmpULT(sum, low), b_.getInt32Ty());
    Value *more = b_.CreateAdd(high, carry);
    when(b_.CreateICmpNE(more, b_.getInt32(0)), [&] { add_half(index, 1, more); });
  }
  Value *add_half(Value *index, unsigned half, Value *count) {
    Value *at = b_.CreateBitCast(
        place_of_counter(index),
        pointer_to(b_.getInt32Ty(),
                   counters_argument(function_)->getType()->getPointerAddressSpace()));
    return call_built_in(b_, "_Z10atomic_addPU3AS1Vjj", b_.getInt32Ty(),
                         {b_.CreateGEP(b_.getInt32Ty(), at, b_.getInt32(half)), count});
  }
};

}  // namespace

llvm::ReturnInst *only_return(llvm::Function &function) {
  for (llvm::BasicBlock &block : function) {
    if (auto *end = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator())) return end;
  }
  return nullptr;
}

void write_counts(llvm::Function &function, const std::vector<Slot> &slots,
                  const std::vector<Multiple> &multiples, uint32_t n_probes, const Warps &warps) {
  llvm::ReturnInst *end = only_return(function);
  if (!end) return;  // the kernel never ends: its counters cannot be read
  if (warps.reduce) {
    SubGroupExit(function, end, n_probes, warps).emit(slots, multiples);
  } else if (warps.local_words == 0 && !slots.empty()) {
    AtomicExit(function, end, n_probes, warps).emit(slots, multiples);
  } else {
    LocalMemoryExit(function, end, n_probes, warps).emit(slots, multiples);
  }
}

}  // namespace clinst
