// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <string.h>

#include <algorithm>
#include <list>
#include <stdexcept>

#include "code.h"
#include "evaluate.h"

namespace emulator {
namespace {

enum : uint32_t { LANES = 32 };

struct Group { /* lanes that go together until they come to `joins` */
  size_t at, joins;
  uint32_t lanes;
};

struct Frame {
  const Function *function;
  std::vector<Group> groups; /* the last one runs */
  std::vector<uint64_t> registers;
  std::vector<std::vector<uint8_t>> params, locals; /* by lane */
  const Instruction *call;                          /* in the frame below */
};

struct Block {
  std::vector<uint8_t> shared;
  uint32_t id[3];
};

class WarpRun {
 public:
  WarpRun(const Code &code, const Shape &shape, Block *block, uint32_t first_thread,
          const Function &kernel, const std::vector<uint8_t> &arguments, Warp *reached);
  /* Until the warp is over or at a barrier; false: over. */
  bool run();

 private:
  void enter(const Function &function, uint32_t lanes, const Instruction *call);
  void step();
  void leave(uint32_t lanes, bool thread_ends);
  void settle();
  void branch(const Instruction &at, uint32_t lanes);
  void indirect(const Instruction &at, uint32_t lanes);
  void call(const Instruction &at, uint32_t lanes);
  void returned(const Frame &callee);
  void execute(const Instruction &at, uint32_t lanes);
  void together(const Instruction &at, uint32_t lanes);
  void load(const Instruction &at, uint32_t lane);
  void store(const Instruction &at, uint32_t lane);
  void atomic(const Instruction &at, uint32_t lane);
  void set_predicate(const Instruction &at, uint32_t lane);
  void convert_address(const Instruction &at, uint32_t lane);

  Frame &frame() { return frames_.back(); }
  uint64_t &reg(uint32_t index, uint32_t lane) { return frame().registers[index * LANES + lane]; }
  bool holds(const Operand &guard, uint32_t lane) {
    return guard.kind == Operand::NONE || ((reg(guard.index, lane) != 0) != guard.negated);
  }
  uint64_t value(const Operand &from, const Type &type, uint32_t lane);
  uint64_t symbol(const std::string &name, uint32_t lane);
  uint64_t special(const std::string &name, uint32_t lane);
  uint8_t *place(const Instruction &at, const Operand &address, uint32_t lane);
  void set(const Operand &to, const Type &type, uint64_t bits, uint32_t lane);
  void move_parts(const Instruction &at, uint32_t lane);

  const Code &code_;
  const Shape &shape_;
  Block *const block_;
  const uint32_t first_thread_;
  Warp *const reached_;
  std::vector<Frame> frames_;
  bool at_barrier_ = false;
};

template <typename Action>
void for_lanes(uint32_t lanes, Action action) {
  for (uint32_t lane = 0; lane < LANES; lane++)
    if (lanes >> lane & 1) action(lane);
}

WarpRun::WarpRun(const Code &code, const Shape &shape, Block *block, uint32_t first_thread,
                 const Function &kernel, const std::vector<uint8_t> &arguments, Warp *reached)
    : code_(code), shape_(shape), block_(block), first_thread_(first_thread), reached_(reached) {
  uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  uint32_t n = std::min<uint32_t>(LANES, threads - first_thread);
  enter(kernel, n == LANES ? ~0u : (1u << n) - 1, nullptr);
  for (std::vector<uint8_t> &params : frame().params)
    std::copy(arguments.begin(), arguments.end(), params.begin());
}

void WarpRun::enter(const Function &function, uint32_t lanes, const Instruction *call) {
  Frame made = {&function, {{0, function.code.size(), lanes}}, {}, {}, {}, call};
  made.registers.resize(function.registers.size() * LANES);
  made.params.assign(LANES, std::vector<uint8_t>(function.param_bytes));
  made.locals.assign(LANES, std::vector<uint8_t>(function.local_bytes));
  Reached &reached = (*reached_)[function.name];
  reached.lanes.resize(function.code.size());
  reached.groups.resize(function.code.size());
  frames_.push_back(made);
}

bool WarpRun::run() {
  at_barrier_ = false;
  while (!frames_.empty() && !at_barrier_) {
    settle();
    if (!frames_.empty()) step();
  }
  return !frames_.empty();
}

/* Drops groups that are over or have come to where the others wait. */
void WarpRun::settle() {
  while (!frames_.empty()) {
    std::vector<Group> &groups = frame().groups;
    while (!groups.empty() && (groups.back().lanes == 0 ||
                               (groups.size() > 1 && groups.back().at == groups.back().joins)))
      groups.pop_back();
    if (!groups.empty()) return;
    Frame over = frame();
    frames_.pop_back();
    if (over.call) returned(over);
  }
}

void WarpRun::step() {
  Group &group = frame().groups.back();
  if (group.at >= frame().function->code.size())
    throw std::runtime_error("a thread ran out of " + frame().function->name);
  const Instruction &at = frame().function->code[group.at];
  Reached &reached = (*reached_)[frame().function->name];
  reached.lanes[group.at] += static_cast<uint64_t>(__builtin_popcount(group.lanes));
  reached.groups[group.at]++;
  uint32_t lanes = 0;
  for_lanes(group.lanes, [&](uint32_t lane) { lanes |= holds(at.guard, lane) ? 1u << lane : 0; });
  if (at.op == "bra") return branch(at, lanes);
  if (at.op == "brx") return indirect(at, lanes);
  group.at++;
  if (!lanes) return;
  if (at.op == "ret" || at.op == "exit")
    return leave(lanes, at.op == "exit" || frames_.size() == 1);
  if (at.op == "trap") throw std::runtime_error("a thread met a trap");
  if (at.op == "bar" || at.op == "barrier") {
    at_barrier_ = !at.has("arrive");
  } else if (at.op == "call") {
    call(at, lanes);
  } else {
    execute(at, lanes);
  }
}

void WarpRun::leave(uint32_t lanes, bool thread_ends) {
  for (size_t f = thread_ends ? 0 : frames_.size() - 1; f < frames_.size(); f++)
    for (Group &group : frames_[f].groups) group.lanes &= ~lanes;
}

void WarpRun::branch(const Instruction &at, uint32_t lanes) {
  Group &group = frame().groups.back();
  uint32_t rest = group.lanes & ~lanes;
  size_t next = group.at + 1;
  if (!rest || !lanes) {
    group.at = lanes ? at.targets[0] : next;
    return;
  }
  group.at = at.joins;
  frame().groups.push_back({next, at.joins, rest});
  frame().groups.push_back({at.targets[0], at.joins, lanes});
}

void WarpRun::indirect(const Instruction &at, uint32_t lanes) {
  Group &group = frame().groups.back();
  std::map<size_t, uint32_t> to;
  if (uint32_t rest = group.lanes & ~lanes) to[group.at + 1] = rest;
  for_lanes(lanes, [&](uint32_t lane) {
    to[at.targets.at(value(at.operands[0], {'u', 4}, lane))] |= 1u << lane;
  });
  if (to.size() == 1) {
    group.at = to.begin()->first;
    return;
  }
  group.at = at.joins;
  for (auto &[target, part] : to) frame().groups.push_back({target, at.joins, part});
}

/* ---- calls ---------------------------------------------------------------------------------- */

const std::vector<Operand> *results_of(const Instruction &call) {
  bool has = call.operands.size() > 1 && call.operands[0].kind == Operand::LIST &&
             call.operands[1].kind == Operand::SYMBOL;
  return has ? &call.operands[0].list : nullptr;
}

void WarpRun::call(const Instruction &at, uint32_t lanes) {
  size_t target = results_of(at) ? 1 : 0;
  auto callee = code_.functions.find(at.operands[target].name);
  if (callee == code_.functions.end())
    throw std::runtime_error("the emulator cannot call " + at.operands[target].name);
  const Function &function = callee->second;
  const Frame &caller = frame();
  std::vector<std::vector<uint8_t>> given = caller.params;
  const std::map<std::string, Variable> &from = caller.function->params;
  enter(function, lanes, &at);
  for (size_t i = 0; i < function.inputs.size(); i++) {
    const Variable &source = from.at(at.operands.at(target + 1).list.at(i).name);
    for_lanes(lanes, [&](uint32_t lane) {
      std::copy_n(given[lane].begin() + static_cast<long>(source.offset), source.bytes,
                  frame().params[lane].begin() + static_cast<long>(function.inputs[i].offset));
    });
  }
}

void WarpRun::returned(const Frame &callee) {
  const std::vector<Operand> *results = results_of(*callee.call);
  for (size_t i = 0; results && i < results->size(); i++) {
    const Variable &to = frame().function->params.at((*results)[i].name);
    const Variable &from = callee.function->outputs.at(i);
    for_lanes(frame().groups.back().lanes, [&](uint32_t lane) {
      std::copy_n(callee.params[lane].begin() + static_cast<long>(from.offset), from.bytes,
                  frame().params[lane].begin() + static_cast<long>(to.offset));
    });
  }
}

/* ---- operands ------------------------------------------------------------------------------- */

uint64_t WarpRun::special(const std::string &name, uint32_t lane) {
  uint32_t thread = first_thread_ + lane;
  const uint32_t *block = shape_.block;
  const uint32_t tid[3] = {thread % block[0], thread / block[0] % block[1],
                           thread / block[0] / block[1]};
  size_t axis =
      name.size() > 2 && name[name.size() - 2] == '.' ? static_cast<size_t>(name.back() - 'x') : 0;
  std::string base = name.substr(0, name.find('.'));
  if (base == "%tid") return tid[axis];
  if (base == "%ntid") return block[axis];
  if (base == "%ctaid") return block_->id[axis];
  if (base == "%nctaid") return shape_.grid[axis];
  if (base == "%laneid") return lane;
  if (base == "%warpid") return first_thread_ / LANES;
  if (base == "%lanemask_lt") return (1u << lane) - 1;
  if (base == "%lanemask_eq") return 1u << lane;
  if (base == "%dynamic_smem_size") return shape_.shared_bytes;
  throw std::runtime_error("the emulator does not know " + name);
}

uint64_t WarpRun::symbol(const std::string &name, uint32_t lane) {
  if (name[0] == '%') return special(name, lane);
  const Function &function = *frame().function;
  if (auto found = function.params.find(name); found != function.params.end())
    return reinterpret_cast<uint64_t>(frame().params[lane].data() + found->second.offset);
  if (auto found = function.locals.find(name); found != function.locals.end())
    return found->second.offset;
  if (auto found = code_.shared.find(name); found != code_.shared.end())
    return name == code_.dynamic ? code_.shared_bytes : found->second.offset;
  if (auto found = code_.globals.find(name); found != code_.globals.end())
    return reinterpret_cast<uint64_t>(found->second.data());
  throw std::runtime_error("the emulator does not know the symbol " + name);
}

uint64_t WarpRun::value(const Operand &from, const Type &type, uint32_t lane) {
  uint64_t bits = from.kind == Operand::NUMBER     ? from.value
                  : from.kind == Operand::REGISTER ? reg(from.index, lane)
                                                   : symbol(from.name, lane);
  if (type.kind == 'p') return (bits != 0) != from.negated;
  return extended(type, bits);
}

void WarpRun::set(const Operand &to, const Type &type, uint64_t bits, uint32_t lane) {
  if (to.kind != Operand::REGISTER) return; /* `_` */
  const unsigned n = type.kind == 'p' ? 1 : 8 * type.bytes;
  reg(to.index, lane) = n == 64 ? bits : bits & ((uint64_t{1} << n) - 1);
}

/* Host memory. Shared and local addresses are offsets; generic ones are the host's. */
uint8_t *WarpRun::place(const Instruction &at, const Operand &address, uint32_t lane) {
  uint64_t offset = address.value;
  if (address.based) offset += reg(address.index, lane);
  if (!address.name.empty()) offset += symbol(address.name, lane);
  if (at.has("shared")) {
    offset = static_cast<uint32_t>(offset);
    if (offset + 8 > block_->shared.size()) throw std::runtime_error("outside of shared memory");
    return block_->shared.data() + offset;
  }
  if (at.has("local")) return frame().locals[lane].data() + offset;
  return reinterpret_cast<uint8_t *>(offset);
}

/* ---- instructions --------------------------------------------------------------------------- */

std::vector<Operand> elements(const Operand &operand) {
  return operand.kind == Operand::LIST ? operand.list : std::vector<Operand>{operand};
}

void WarpRun::load(const Instruction &at, uint32_t lane) {
  const Type type = at.types.back();
  const uint8_t *from = place(at, at.operands[1], lane);
  for (const Operand &to : elements(at.operands[0])) {
    uint64_t bits = 0;
    memcpy(&bits, from, type.bytes);
    if (to.kind == Operand::REGISTER) reg(to.index, lane) = extended(type, bits);
    from += type.bytes;
  }
}

void WarpRun::store(const Instruction &at, uint32_t lane) {
  const Type type = at.types.back();
  uint8_t *to = place(at, at.operands[0], lane);
  for (const Operand &from : elements(at.operands[1])) {
    uint64_t bits = value(from, {'b', 8}, lane);
    memcpy(to, &bits, type.bytes);
    to += type.bytes;
  }
}

void WarpRun::atomic(const Instruction &at, uint32_t lane) {
  const Type type = at.types.back();
  const size_t address = at.op == "atom" ? 1 : 0;
  uint8_t *to = place(at, at.operands[address], lane);
  uint64_t old = 0, more = 0;
  memcpy(&old, to, type.bytes);
  if (at.operands.size() > address + 2) more = value(at.operands[address + 2], type, lane);
  uint64_t made =
      updated(at, type, extended(type, old), value(at.operands[address + 1], type, lane), more);
  memcpy(to, &made, type.bytes);
  if (at.op == "atom") set(at.operands[0], type, old, lane);
}

/* mov.b64 d, {a, b}; or mov.b64 {a, b}, d; */
void WarpRun::move_parts(const Instruction &at, uint32_t lane) {
  const bool packs = at.operands[1].kind == Operand::LIST;
  const std::vector<Operand> parts = elements(at.operands[packs ? 1 : 0]);
  const Type whole = at.types.back();
  const Type part = {'b', whole.bytes / static_cast<uint32_t>(parts.size())};
  uint64_t bits = packs ? 0 : value(at.operands[1], whole, lane);
  for (size_t i = 0; i < parts.size(); i++) {
    const unsigned by = static_cast<unsigned>(8 * part.bytes * i);
    if (packs)
      bits |= extended(part, value(parts[i], part, lane)) << by;
    else if (parts[i].kind == Operand::REGISTER)
      set(parts[i], part, bits >> by, lane);
  }
  if (packs) set(at.operands[0], whole, bits, lane);
}

/* setp.lt.and.u32 p|q, a, b, c; */
void WarpRun::set_predicate(const Instruction &at, uint32_t lane) {
  const Type type = at.types.back();
  bool holds = compare(at.suffixes[0], type, value(at.operands[1], type, lane),
                       value(at.operands[2], type, lane));
  bool other = !holds;
  if (at.operands.size() > 3) {
    bool also = value(at.operands[3], {'p', 1}, lane) != 0;
    auto joined = [&](bool one) {
      return at.has("and") ? one && also : at.has("or") ? one || also : one != also;
    };
    other = joined(other);
    holds = joined(holds);
  }
  std::vector<Operand> to = elements(at.operands[0]);
  set(to[0], {'p', 1}, holds, lane);
  if (to.size() > 1) set(to[1], {'p', 1}, other, lane);
}

void WarpRun::convert_address(const Instruction &at, uint32_t lane) {
  const Type type = at.types.back();
  uint64_t address = value(at.operands[1], type, lane), base = 0;
  if (at.has("shared")) base = reinterpret_cast<uint64_t>(block_->shared.data());
  if (at.has("local")) base = reinterpret_cast<uint64_t>(frame().locals[lane].data());
  set(at.operands[0], type, at.has("to") ? address - base : address + base, lane);
}

/* Instructions whose result depends on the other lanes. */
void WarpRun::together(const Instruction &at, uint32_t lanes) {
  if (at.op == "activemask") {
    for_lanes(lanes, [&](uint32_t lane) { set(at.operands[0], {'b', 4}, lanes, lane); });
    return;
  }
  const Type type = at.types.back();
  std::vector<uint64_t> given(LANES);
  for_lanes(lanes, [&](uint32_t lane) {
    uint32_t members = static_cast<uint32_t>(value(at.operands.back(), {'u', 4}, lane));
    if (members & ~lanes) throw std::runtime_error(at.op + " waits for lanes that are elsewhere");
    given[lane] = value(at.operands[1], at.op == "vote" ? Type{'p', 1} : type, lane);
  });
  uint64_t sum = 0, ballot = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    sum += given[lane];
    ballot |= given[lane] ? uint64_t{1} << lane : 0;
  });
  for_lanes(lanes, [&](uint32_t lane) {
    if (at.op == "redux" && at.has("add")) {
      set(at.operands[0], type, sum, lane);
    } else if (at.op == "vote") {
      bool all = ballot == lanes, any = ballot != 0;
      set(at.operands[0], at.has("ballot") ? type : Type{'p', 1},
          at.has("ballot") ? ballot
          : at.has("all")  ? all
                           : any,
          lane);
    } else if (at.op == "shfl") {
      uint32_t by = static_cast<uint32_t>(value(at.operands[2], {'u', 4}, lane));
      uint32_t from = at.has("down")   ? lane + by
                      : at.has("up")   ? lane - by
                      : at.has("bfly") ? lane ^ by
                                       : by;
      bool there = from < LANES && (lanes >> from & 1);
      std::vector<Operand> to = elements(at.operands[0]);
      set(to[0], type, given[there ? from : lane], lane);
      if (to.size() > 1) set(to[1], {'p', 1}, there, lane);
    } else {
      throw std::runtime_error("the emulator does not know " + at.op);
    }
  });
}

Type wide(const Type &type) { return {type.kind, 2 * type.bytes}; }

void WarpRun::execute(const Instruction &at, uint32_t lanes) {
  auto is_one_of = [&](std::initializer_list<const char *> list) {
    return std::count(list.begin(), list.end(), at.op) != 0;
  };
  if (is_one_of({"activemask", "redux", "vote", "shfl"})) return together(at, lanes);
  if (is_one_of({"membar", "fence", "nanosleep", "prefetch"})) return;
  for_lanes(lanes, [&](uint32_t lane) {
    if (at.op == "ld") return load(at, lane);
    if (at.op == "st") return store(at, lane);
    if (at.op == "atom" || at.op == "red") return atomic(at, lane);
    if (at.op == "setp") return set_predicate(at, lane);
    if (at.op == "cvta") return convert_address(at, lane);
    if (at.op == "cvt")
      return set(at.operands[0], at.types[0], convert(at, value(at.operands[1], at.types[1], lane)),
                 lane);
    if (at.op == "mov" &&
        (at.operands[0].kind == Operand::LIST || at.operands[1].kind == Operand::LIST))
      return move_parts(at, lane);
    const Type type = at.types.back();
    uint64_t in[3] = {0, 0, 0};
    for (size_t i = 1; i < at.operands.size() && i < 4; i++)
      in[i - 1] = value(at.operands[i], at.op == "selp" && i == 3 ? Type{'p', 1} : type, lane);
    if (at.op == "mad" && at.has("wide")) in[2] = value(at.operands[3], wide(type), lane);
    if (at.op == "selp" && !in[2]) in[0] = in[1];
    set(at.operands[0], at.has("wide") ? wide(type) : type, evaluate(at, type, in[0], in[1], in[2]),
        lane);
  });
}

/* ---- launches ------------------------------------------------------------------------------- */

void run_block(const Code &code, const Shape &shape, Block *block, const Function &kernel,
               const std::vector<uint8_t> &arguments, Warp *reached) {
  uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  std::list<WarpRun> running;
  for (uint32_t first = 0; first < threads; first += LANES)
    running.emplace_back(code, shape, block, first, kernel, arguments, reached + first / LANES);
  /* Each time around, all come to the next barrier. */
  while (!running.empty()) running.remove_if([](WarpRun &warp) { return !warp.run(); });
}

}  // namespace

Module::Module(const std::string &text) : code_(new Code(parse(text))) {}
Module::~Module() = default;

void *Module::variable(const std::string &name, size_t *bytes) const {
  auto found = code_->globals.find(name);
  if (found == code_->globals.end()) return nullptr;
  if (bytes) *bytes = found->second.size();
  return found->second.data();
}

bool Module::has_kernel(const std::string &name) const {
  auto found = code_->functions.find(name);
  return found != code_->functions.end() && found->second.entry;
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto &[name, function] : code_->functions)
    if (function.entry) names.push_back(name);
  return names;
}

void Module::launch(const std::string &name, const Shape &shape, void **arguments,
                    std::vector<Warp> *warps) const {
  const Function &kernel = code_->functions.at(name);
  std::vector<uint8_t> given(kernel.param_bytes);
  for (size_t i = 0; i < kernel.inputs.size(); i++)
    memcpy(given.data() + kernel.inputs[i].offset, arguments[i], kernel.inputs[i].bytes);
  uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  uint32_t a_block = (threads + LANES - 1) / LANES;
  std::vector<Warp> own;
  std::vector<Warp> &reached = warps ? *warps : own;
  reached.assign(size_t{a_block} * shape.grid[0] * shape.grid[1] * shape.grid[2], {});
  size_t first = 0;
  for (uint32_t z = 0; z < shape.grid[2]; z++)
    for (uint32_t y = 0; y < shape.grid[1]; y++)
      for (uint32_t x = 0; x < shape.grid[0]; x++, first += a_block) {
        Block block = {{}, {x, y, z}};
        block.shared.resize(code_->shared_bytes + shape.shared_bytes + 8);
        run_block(*code_, shape, &block, kernel, given, &reached[first]);
      }
}

}  // namespace emulator
