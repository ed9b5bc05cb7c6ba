// SPDX-License-Identifier: Apache-2.0
// Values of a kernel at its return, as expressions over the launch (nodes.h).
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PassManager.h>

#include <map>
#include <set>
#include <vector>

#include "nodes.h"

namespace clinst {

// Moves queries of ids and sizes to the front, so that no loop depends on them.
void hoist_queries(llvm::Function &function);
// Gives variables that LLVM has widened their own width again: `int i; ... i +=
// get_global_size(0)`.
void narrow_variables(llvm::Function &function);

// A loop counts as one block; its values behind it are those of its last iteration. All functions
// throw NotKnown.
class Expressions {
 public:
  Expressions(llvm::Function &function, uint32_t n_args, llvm::FunctionAnalysisManager &analyses);

  uint32_t value(llvm::Value *value);
  std::vector<Node> take() { return nodes_.take(); }

 protected:
  // An iteration of a loop that is followed iteration by iteration.
  struct Turn {
    const llvm::Loop *loop;
    Turn *before;  // NULL: the first
    llvm::DenseMap<llvm::Value *, uint32_t> values;
    llvm::DenseMap<llvm::BasicBlock *, uint32_t> reached;
  };
  struct Turns {
    std::vector<Turn> all;
    std::vector<uint32_t> ends;  // whether the loop is left in this turn, if reached
  };
  // A test of what a loop counts against an end.
  struct Stride {
    llvm::CmpInst::Predicate stays;
    const llvm::SCEVAddRecExpr *counter = nullptr;  // NULL: the test is another one
    const llvm::SCEV *end;
  };
  // The same, normalised: the counter rises to `end`, in unsigned order, and is at most `top`.
  struct Way {
    uint32_t start, end, step, top;
    bool reaches_end;
  };
  class OfEvolution;
  class Visit;
  // While it lives, values of the loop are those of this turn.
  class InTurn {
   public:
    InTurn(Expressions &of, Turn *turn) : of_(of), before_(of.turn_) { of.turn_ = turn; }
    ~InTurn() { of_.turn_ = before_; }
    InTurn(const InTurn &) = delete;
    InTurn &operator=(const InTurn &) = delete;

   private:
    Expressions &of_;
    Turn *before_;
  };

  // ---- expressions.cpp
  unsigned bits(llvm::Value *value) { return value->getType()->getIntegerBitWidth(); }
  uint32_t make(llvm::Value *value);
  uint32_t operand(llvm::Instruction *instruction, unsigned n) {
    return value(instruction->getOperand(n));
  }
  uint32_t compared(const llvm::ICmpInst &compare);
  uint32_t called(llvm::CallBase &call);
  uint32_t merged(llvm::PHINode &phi);
  uint32_t edge(llvm::BasicBlock *from, llvm::BasicBlock *to);
  uint32_t reached(llvm::BasicBlock *block);
  uint32_t reach(llvm::BasicBlock *block);
  // Whether the value changes in a loop that encloses the turn's loop.
  bool varies_around(llvm::Instruction *instruction);
  bool in_turn(const llvm::BasicBlock *block) const {
    return turn_ && turn_->loop->contains(block);
  }
  const llvm::Loop *outermost(llvm::BasicBlock *block);

  // ---- loop_values.cpp
  uint32_t left(llvm::Instruction *instruction);
  uint32_t of_evolution(const llvm::SCEV *value);
  uint32_t trips(const llvm::Loop *loop);
  const llvm::SCEV *known_trips(const llvm::Loop *loop);
  Stride stride_of(const llvm::Loop *loop);
  Stride tested(const llvm::ICmpInst &test, bool holds, const llvm::Loop *loop);
  Way way_of(const Stride &stride);
  uint32_t moves(const Way &way);
  uint32_t strided(const Way &way);
  uint32_t turns_taken(const llvm::Loop *loop);
  uint32_t behind_turns(llvm::Instruction *instruction, const llvm::Loop *loop);
  template <class Of>
  uint32_t at_exit(const llvm::Loop *loop, Of &&of);
  uint32_t leaves(llvm::BasicBlock *from, llvm::BasicBlock *to, const llvm::Loop *loop);
  Turns &turns_of(const llvm::Loop *loop);
  uint32_t in_header(llvm::PHINode &phi);

  uint32_t n_args_;
  llvm::DominatorTree &dominators_;
  llvm::LoopInfo &loops_;
  llvm::ScalarEvolution &evolution_;
  llvm::PostDominatorTree behind_;
  Nodes nodes_;
  llvm::DenseMap<llvm::Value *, uint32_t> values_;
  llvm::DenseMap<llvm::BasicBlock *, uint32_t> reached_;
  std::map<const llvm::Loop *, uint32_t> trips_;
  std::map<const llvm::Loop *, Turns> turns_;
  Turn *turn_ = nullptr;
  std::set<std::pair<const void *, const Turn *>> under_way_;
};

}  // namespace clinst
