// SPDX-License-Identifier: Apache-2.0
// Counters as sums over the blocks that increment them. This covers nested loops and conditions in
// loops, where a counter's value has no expression of its own.
#pragma once

#include "expressions.h"

namespace clinst {

class Executions : public Expressions {
 public:
  Executions(llvm::Function &function, uint32_t n_args, llvm::FunctionAnalysisManager &analyses);

  // The counter's value at the kernel's return, if the program adds nothing but constants to it.
  // Throws NotKnown.
  uint32_t counted(llvm::Value *counter);

 private:
  // Turns of a loop that has been entered: those from `from` to before `to`, if `holds`.
  struct Span {
    uint32_t from, to, holds;
    bool less = false;  // taken away
  };
  using Spans = std::vector<Span>;  // their sum

  uint32_t executions(llvm::BasicBlock *block);
  uint32_t turns(llvm::BasicBlock *block, const llvm::Loop *loop);
  uint32_t turns_followed(llvm::BasicBlock *block, const llvm::Loop *loop);
  static Spans without(Spans all, Spans some);
  Spans spans_of(llvm::BasicBlock *block, const llvm::Loop *loop);
  Spans where(Spans spans, llvm::Value *condition, bool holds, const llvm::Loop *loop);
  Spans where(Spans spans, const llvm::ICmpInst &test, bool holds, const llvm::Loop *loop);
  Spans where(Spans spans, const Stride &test, const llvm::Loop *loop);
  uint32_t times_round(const llvm::Loop *loop);
  bool is_fixed(const llvm::SCEV *value, const llvm::Loop *loop);
  bool is_fixed(const Stride &stride, const llvm::Loop *loop);

  bool reducible_;
};

}  // namespace clinst
