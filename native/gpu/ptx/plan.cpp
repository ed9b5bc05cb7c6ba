// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <math.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace ptx {
namespace {

/* ---- probes --------------------------------------------------------------------------------- */

/* The ends of blocks, joined where control flows from one to the next. In the graph whose nodes are
 * the joined ends, each block is an edge, and as many threads come to a node as leave it. */
class Joints {
 public:
  explicit Joints(const std::vector<Block> &blocks) : of_(2 * blocks.size() + 1) {
    std::iota(of_.begin(), of_.end(), 0u);
    for (uint32_t b = 0; b < blocks.size(); b++) {
      for (uint32_t next : blocks[b].successors) join(bottom(b), top(next));
      if (blocks[b].leaves) join(bottom(b), exit());
    }
  }
  uint32_t top(uint32_t block) const { return 2 * block; }
  uint32_t bottom(uint32_t block) const { return 2 * block + 1; }
  uint32_t exit() const { return static_cast<uint32_t>(of_.size()) - 1; }
  /* Dense numbers; the entry is 0. */
  uint32_t number(uint32_t end) {
    numbers_.emplace(root(top(0)), 0);
    return numbers_.emplace(root(end), static_cast<uint32_t>(numbers_.size())).first->second;
  }
  uint32_t numbers() const { return static_cast<uint32_t>(numbers_.size()); }

 private:
  uint32_t root(uint32_t end) {
    while (of_[end] != end) end = of_[end] = of_[of_[end]];
    return end;
  }
  void join(uint32_t a, uint32_t b) { of_[root(a)] = root(b); }
  std::vector<uint32_t> of_;
  std::map<uint32_t, uint32_t> numbers_;
};

constexpr double NEVER = 1e299; /* the cost of an edge that has no counter */

/* Every block is two edges with a node between them, whose count is the block's. */
clinst::FlowPlan flow_of(const std::vector<Block> &blocks) {
  Joints joints(blocks);
  uint32_t n = static_cast<uint32_t>(blocks.size());
  std::vector<uint32_t> top(n), bottom(n);
  for (uint32_t b = 0; b < n; b++) {
    top[b] = joints.number(joints.top(b));
    bottom[b] = joints.number(joints.bottom(b));
  }
  const uint32_t last = joints.number(joints.exit()), first_middle = joints.numbers();
  std::vector<clinst::FlowEdge> edges;
  for (uint32_t b = 0; b < n; b++)
    edges.push_back({top[b], first_middle + b, pow(10, std::min(blocks[b].depth, 20u))});
  for (uint32_t b = 0; b < n; b++) edges.push_back({first_middle + b, bottom[b], NEVER});
  edges.push_back({last, first_middle + n, NEVER});
  clinst::FlowPlan found = clinst::plan_flow(first_middle + n + 1, edges);
  found.derivation.erase(found.derivation.begin(), found.derivation.begin() + first_middle);
  found.derivation.resize(n);
  return found;
}

void choose_probes(CountedFunction *function, Unit unit) {
  uint32_t n = static_cast<uint32_t>(function->blocks.size());
  if (unit == Unit::LANE) {
    clinst::FlowPlan flow = flow_of(function->blocks);
    function->probes = flow.probes;
    function->derivation = flow.derivation;
  } else {
    for (uint32_t b = 0; b < n; b++) {
      function->probes.push_back(b);
      function->derivation.push_back({{static_cast<int32_t>(b), 1}});
    }
  }
  bool told_by_launch = function->entry && function->probes.empty();
  function->columns = told_by_launch ? 0 : 1 + static_cast<uint32_t>(function->probes.size());
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Functions of the driver's, whose code nobody sees. */
bool is_drivers(const std::string &name) {
  static const std::set<std::string> known = {"vprintf", "malloc", "free", "__assertfail"};
  return known.count(name) != 0;
}

/* `call (r), f, (a);` -> `f`; a register: any function. */
std::string callee(const Instruction &call) {
  size_t at = !call.operands.empty() && call.operands[0].front() == '(' ? 1 : 0;
  return at < call.operands.size() ? call.operands[at] : "";
}

class Calls {
 public:
  explicit Calls(const Module &module) : module_(module) {
    for (uint32_t f = 0; f < module.functions.size(); f++)
      if (module.functions[f].defined) defined_[module.functions[f].name] = f;
  }
  /* The functions that may run below function `from`; `reason` when one of them cannot be seen. */
  std::vector<uint32_t> below(uint32_t from, std::string *reason) const {
    std::set<uint32_t> seen;
    std::vector<uint32_t> work = {from};
    while (!work.empty()) {
      uint32_t f = work.back();
      work.pop_back();
      for (const Instruction &instruction : module_.functions[f].code)
        if (instruction.base() == "call")
          for (uint32_t to : leads_to(callee(instruction), reason))
            if (seen.insert(to).second) work.push_back(to);
    }
    return {seen.begin(), seen.end()};
  }

 private:
  std::vector<uint32_t> leads_to(const std::string &name, std::string *reason) const {
    std::vector<uint32_t> found;
    auto known = defined_.find(name);
    if (known != defined_.end()) {
      found.push_back(known->second);
    } else if (!name.empty() && name[0] == '%') {
      for (auto &[other, f] : defined_)
        if (!module_.functions[f].entry) found.push_back(f);
    } else if (!is_drivers(name)) {
      *reason = "it calls " + name + ", whose code is not in its module";
    }
    return found;
  }
  const Module &module_;
  std::map<std::string, uint32_t> defined_;
};

/* A thread that ends in a called function leaves the kernel's counters behind. */
std::string why_not(const Function &function) {
  if (!function.defined) return "its code is not in its module";
  if (function.code.empty()) return "it has no instructions";
  bool ends = std::any_of(function.code.begin(), function.code.end(), ends_thread);
  return ends && !function.entry ? function.name + " ends threads of the kernels that call it" : "";
}

}  // namespace

std::vector<CountedFunction> plan(const Module &module, Unit unit) {
  std::vector<CountedFunction> found;
  Calls calls(module);
  uint32_t shared = 0; /* columns of called functions come first, the same in every row */
  for (const Function &function : module.functions) {
    CountedFunction counted = {};
    counted.name = function.name;
    counted.entry = function.entry;
    counted.reason = why_not(function);
    if (counted.reason.empty()) {
      counted.blocks = find_blocks(function);
      choose_probes(&counted, unit);
    }
    if (!function.entry) {
      counted.first_column = shared;
      shared += counted.columns;
    }
    found.push_back(counted);
  }
  uint32_t own_slots = 0;
  for (uint32_t f = 0; f < found.size(); f++) {
    if (!found[f].entry) continue;
    found[f].first_column = shared;
    found[f].called = calls.below(f, &found[f].reason);
    for (uint32_t called : found[f].called)
      if (!found[called].reason.empty()) found[f].reason = found[called].reason;
    /* The number of threads that left tells whether a row is one launch's. */
    if (!found[f].called.empty() && !found[f].columns) found[f].columns = 1;
    if (found[f].called.empty() && found[f].columns) found[f].slot = ++own_slots;
  }
  return found;
}

uint32_t row_columns(const CountedFunction &kernel) { return kernel.first_column + kernel.columns; }

std::vector<xpu_block> blocks_of(const Program &program, const CountedFunction &kernel) {
  std::vector<xpu_block> blocks;
  for (const Block &block : kernel.blocks) blocks.push_back(block.content);
  for (uint32_t called : kernel.called)
    for (const Block &block : program.functions[called].blocks) blocks.push_back(block.content);
  return blocks;
}

static void derive(const CountedFunction &function, const uint64_t *columns, uint64_t entries,
                   std::vector<uint64_t> *counts) {
  for (const std::vector<clinst::Term> &terms : function.derivation) {
    uint64_t count = 0; /* wraps around in between */
    for (const clinst::Term &term : terms)
      count += static_cast<uint64_t>(static_cast<int64_t>(term.factor)) *
               (term.probe < 0 ? entries : columns[1 + term.probe]);
    counts->push_back(count);
  }
}

bool counts_of(const Program &program, const CountedFunction &kernel, const uint64_t *row,
               uint32_t threads, std::vector<uint64_t> *counts) {
  counts->clear();
  const uint64_t *own = row + kernel.first_column;
  if (kernel.columns && own[0] != threads) return false;
  derive(kernel, own, threads, counts);
  for (uint32_t f : kernel.called) {
    const CountedFunction &called = program.functions[f];
    const uint64_t *columns = row + called.first_column;
    derive(called, columns, columns[0], counts);
  }
  return true;
}

}  // namespace ptx
