// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <algorithm>
#include <set>

namespace ptx {

bool is_return(const Instruction &instruction) {
  return instruction.base() == "ret" || instruction.base() == "exit";
}

bool ends_thread(const Instruction &instruction) { return instruction.base() == "exit"; }

namespace {

/* A trap stops the whole launch, whose counts are then discarded. */
bool never_continues(const Instruction &instruction) {
  std::string base = instruction.base();
  return instruction.guard.empty() &&
         (base == "bra" || base == "brx" || base == "ret" || base == "exit" || base == "trap");
}

bool is_branch(const Instruction &instruction) {
  return instruction.base() == "bra" || instruction.base() == "brx";
}

bool ends_block(const Instruction &instruction) {
  return is_branch(instruction) || is_return(instruction) || never_continues(instruction);
}

/* Index of the first instruction behind each target of a branch. */
std::vector<size_t> targets(const Function &function, const Instruction &branch) {
  std::vector<std::string> names = {branch.operands.empty() ? "" : branch.operands.back()};
  if (branch.base() == "brx") {
    auto list = function.target_lists.find(names[0]);
    if (list == function.target_lists.end())
      throw SyntaxError("a brx.idx of " + function.name + " has no list of targets");
    names = list->second;
  }
  std::vector<size_t> found;
  for (const std::string &name : names) {
    auto label = function.labels.find(name);
    if (label == function.labels.end() || label->second >= function.code.size())
      throw SyntaxError("a branch of " + function.name + " leads to '" + name +
                        "', where it has no instruction");
    found.push_back(label->second);
  }
  return found;
}

std::vector<bool> leaders(const Function &function) {
  std::vector<bool> leads(function.code.size(), false);
  if (!leads.empty()) leads[0] = true;
  for (size_t i = 0; i < function.code.size(); i++) {
    if (is_branch(function.code[i]))
      for (size_t target : targets(function, function.code[i])) leads[target] = true;
    if (ends_block(function.code[i]) && i + 1 < leads.size()) leads[i + 1] = true;
  }
  return leads;
}

void connect(const Function &function, std::vector<Block> *blocks) {
  std::vector<uint32_t> block_of(function.code.size());
  for (uint32_t b = 0; b < blocks->size(); b++)
    std::fill(block_of.begin() + (*blocks)[b].first, block_of.begin() + (*blocks)[b].end, b);
  for (Block &block : *blocks) {
    const Instruction &last = function.code[block.end - 1];
    std::set<uint32_t> to;
    if (is_branch(last))
      for (size_t target : targets(function, last)) to.insert(block_of[target]);
    if (!never_continues(last)) {
      if (block.end == function.code.size())
        throw SyntaxError("the last instruction of " + function.name + " leads out of it");
      to.insert(block_of[block.end]);
    }
    block.successors.assign(to.begin(), to.end());
    block.leaves = is_return(last) || to.empty();
  }
}

/* ---- depth of loops ------------------------------------------------------------------------- */

/* Strongly connected components of the blocks in `inside` (Tarjan, without recursion). */
class Components {
 public:
  Components(const std::vector<Block> &blocks, const std::set<uint32_t> &inside)
      : blocks_(blocks), inside_(inside), number_(blocks.size(), 0), low_(blocks.size(), 0) {
    for (uint32_t b : inside)
      if (!number_[b]) visit(b);
  }
  std::vector<std::set<uint32_t>> loops; /* those that contain a cycle */

 private:
  struct Frame {
    uint32_t block;
    size_t next;
  };
  void open(uint32_t block) {
    number_[block] = low_[block] = ++count_;
    frames_.push_back({block, 0});
    pending_.push_back(block);
    waits_.insert(block);
  }
  void close(uint32_t block) {
    if (low_[block] != number_[block]) return;
    std::set<uint32_t> component;
    uint32_t member;
    do {
      member = pending_.back();
      pending_.pop_back();
      waits_.erase(member);
      component.insert(member);
    } while (member != block);
    const std::vector<uint32_t> &next = blocks_[block].successors;
    if (component.size() > 1 || std::count(next.begin(), next.end(), block))
      loops.push_back(component);
  }
  void visit(uint32_t first) {
    open(first);
    while (!frames_.empty()) {
      Frame &frame = frames_.back();
      const uint32_t block = frame.block;
      if (frame.next < blocks_[block].successors.size()) {
        uint32_t next = blocks_[block].successors[frame.next++];
        if (!inside_.count(next)) continue;
        if (!number_[next])
          open(next);
        else if (waits_.count(next))
          low_[block] = std::min(low_[block], number_[next]);
        continue;
      }
      frames_.pop_back();
      if (!frames_.empty())
        low_[frames_.back().block] = std::min(low_[frames_.back().block], low_[block]);
      close(block);
    }
  }

  const std::vector<Block> &blocks_;
  const std::set<uint32_t> &inside_;
  std::vector<uint32_t> number_, low_;
  std::vector<Frame> frames_;
  std::vector<uint32_t> pending_;
  std::set<uint32_t> waits_;
  uint32_t count_ = 0;
};

/* A loop's inner loops are those that remain without its first block. */
void find_depths(std::vector<Block> *blocks) {
  std::vector<std::set<uint32_t>> work(1);
  for (uint32_t b = 0; b < blocks->size(); b++) work[0].insert(b);
  while (!work.empty()) {
    std::set<uint32_t> inside = work.back();
    work.pop_back();
    for (std::set<uint32_t> &loop : Components(*blocks, inside).loops) {
      for (uint32_t b : loop) (*blocks)[b].depth++;
      loop.erase(loop.begin());
      if (!loop.empty()) work.push_back(loop);
    }
  }
}

}  // namespace

std::vector<Block> find_blocks(const Function &function) {
  std::vector<Block> blocks;
  std::vector<bool> leads = leaders(function);
  for (uint32_t i = 0; i < function.code.size(); i++) {
    if (leads[i]) blocks.push_back({i, i, {}, false, 0, {}});
    Block &block = blocks.back();
    block.end = i + 1;
    block.content.instructions++;
    block.content.mix[mix_of(function.code[i])]++;
  }
  connect(function, &blocks);
  find_depths(&blocks);
  return blocks;
}

}  // namespace ptx
