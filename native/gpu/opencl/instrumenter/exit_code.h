// SPDX-License-Identifier: Apache-2.0
// Building blocks of the ways of summing a warp's counters.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <functional>

#include "built_ins.h"
#include "exit.h"

namespace clinst {

enum Fence : uint32_t { kLocalFence = 1, kGlobalFence = 2 };  // CLK_LOCAL_MEM_FENCE and so on

// Builds code before an instruction, usually the kernel's one return.
class ExitCode {
 public:
  ExitCode(llvm::Function &function, llvm::Instruction *at, uint32_t n_probes, const Warps &warps)
      : function_(function), b_(at), n_probes_(n_probes), warps_(warps) {}

 protected:
  using Value = llvm::Value;

  Value *number(uint64_t n) { return b_.getInt64(n); }

  Value *query(const char *name, int dimension) { return clinst::query(b_, name, dimension); }
  Value *query(const char *name) { return clinst::query(b_, name); }
  Value *linear(const char *name, const char *size) { return clinst::linear(b_, name, size); }
  Value *product(const char *name) { return clinst::product(b_, name); }

  // A call of a device function, by its mangled name, by all work-items together.
  llvm::CallInst *call_together(const std::string &mangled, llvm::Type *type,
                                llvm::ArrayRef<Value *> arguments);

  // The partition of a group's work-items into warps: cut from the front of a row, which is the
  // whole group if warps are not sub-groups. `size`: the query for the group's sizes.
  Value *items_a_row(const char *size);
  Value *rows(const char *size);
  Value *warps_a_row(Value *items);
  Value *full_warps();         // of a group not truncated by the edge of the launch
  Value *counters_of_group();  // index of the first
  Value *own_warp();           // within its group

  void barrier(uint32_t fence);
  // One dimension after the other: a runtime's loops over the work-items then collapse to their
  // first iteration, unlike with a combined test.
  void by_leader(const std::function<void()> &body);
  // In a function of its own if the kernel is scalar. Otherwise the runtime's loop over the
  // work-items around the body, which is long, keeps its variables in memory; and a compiler that
  // vectorises the kernel makes a second version of the function, with vectors for arguments.
  void apart_if_scalar(const std::function<void()> &body);
  void when(Value *condition, const std::function<void()> &body);
  // for (i = from; i < to; i++) body(i), at least once.
  void loop(Value *from, Value *to, const std::function<void(llvm::PHINode *)> &body);

  Value *place_of_counter(Value *index);
  void store_counter(Value *index, Value *value);
  // The value of each of a slot's fields, or of its single counter, in a slot's value or in a sum
  // of them.
  void fields(const Slot &slot, Value *value,
              const std::function<void(uint32_t probe, Value *count)> &body);
  // Stores the sums of a slot's fields, or of its single counter, into the counters of a warp at
  // `base`.
  void store_fields(const Slot &slot, Value *base, Value *sum);
  void header(Value *warp_size, Value *warps_a_group);
  // Run by the leader for all its group's warps, when their other counters are stored ...
  void store_multiples(const std::vector<Multiple> &multiples);
  // ... and of one warp, whose counters begin at `base`.
  void store_multiples(const std::vector<Multiple> &multiples, const std::vector<Value *> &factors,
                       Value *base, Value *items);
  std::vector<Value *> factors_of(const std::vector<Multiple> &multiples);

  llvm::Function &function_;
  llvm::IRBuilder<> b_;
  uint32_t n_probes_;
  Warps warps_;
};

}  // namespace clinst
