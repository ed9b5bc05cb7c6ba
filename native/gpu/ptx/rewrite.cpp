// SPDX-License-Identifier: Apache-2.0
#include "rewrite.h"

#include <stddef.h>
#include <stdio.h>

#include <algorithm>

#include "hash128.h"
#include "plan.h"

namespace ptx {
namespace {

/* A 64-bit counter is summed in three parts, so that no sum of 32 lanes overflows 32 bits. */
enum : unsigned { PART_BITS = 27 };

/* From here on a warp can sum a register of its lanes (redux.sync). */
enum : unsigned { TARGET_WITH_SUMS = 80, VERSION_WITH_SUMS = 700 };

std::string number(uint64_t value) { return std::to_string(value); }

/* The code that counts in one function. */
class Counting {
 public:
  Counting(const Module &module, const CountedFunction &counted, Unit unit,
           const std::string &variable)
      : counted_(counted),
        unit_(unit),
        sums_(module.target >= TARGET_WITH_SUMS && module.version >= VERSION_WITH_SUMS),
        slot_("[" + variable + "+" + number(8 * uint64_t{counted.slot}) + "]") {
    for (uint32_t block : counted.probes)
      places_.push_back(counted.blocks[block].depth ? Place{false, loops_++}
                                                    : Place{true, once_++});
  }
  std::string registers() const;
  std::string start() const;
  std::string increment(size_t probe) const;
  std::string flush(const std::string &guard) const;

 private:
  /* A block outside of loops needs one bit: a thread executes it at most once. */
  struct Place {
    bool once;
    uint32_t index;
  };
  std::string counter(const Place &place) const {
    return place.once ? "%xpuprof_o" + number(place.index / 32)
                      : "%xpuprof_c" + number(place.index);
  }
  std::string head(const std::string &guard) const;
  std::string leave() const;
  std::string row() const;
  std::string leaving() const;
  std::string sum(const Place &place, const std::string &when) const;
  std::string add_to(uint32_t column, const std::string &value) const;

  const CountedFunction &counted_;
  const Unit unit_;
  const bool sums_;
  const std::string slot_;
  std::vector<Place> places_;
  uint32_t loops_ = 0, once_ = 0;
};

std::string Counting::registers() const {
  std::string text;
  if (loops_) text += "\n.reg .b64 %xpuprof_c<" + number(loops_) + ">;";
  if (once_) text += "\n.reg .b32 %xpuprof_o<" + number((once_ + 31) / 32) + ">;";
  return text;
}

std::string Counting::start() const {
  std::string text;
  for (uint32_t c = 0; c < loops_; c++) text += "mov.u64 %xpuprof_c" + number(c) + ", 0;\n";
  for (uint32_t o = 0; o < (once_ + 31) / 32; o++)
    text += "mov.u32 %xpuprof_o" + number(o) + ", 0;\n";
  return text;
}

std::string Counting::increment(size_t probe) const {
  const Place &place = places_[probe];
  std::string name = counter(place);
  std::string add =
      place.once ? "or.b32 " + name + ", " + name + ", " + number(1u << place.index % 32) + ";\n"
                 : "add.u64 " + name + ", " + name + ", 1;\n";
  if (unit_ == Unit::LANE) return add;
  return "{\n.reg .pred %xpuprof_p;\n.reg .b32 %xpuprof_m, %xpuprof_t;\n"
         "activemask.b32 %xpuprof_m;\nmov.u32 %xpuprof_t, %lanemask_lt;\n"
         "and.b32 %xpuprof_t, %xpuprof_t, %xpuprof_m;\nsetp.eq.u32 %xpuprof_p, %xpuprof_t, 0;\n"
         "@%xpuprof_p " +
         add + "}\n";
}

/* %xpuprof_at becomes the address of the launch's head, %xpuprof_go whether it has one and this
 * lane adds. */
std::string Counting::head(const std::string &guard) const {
  std::string and_guard = guard.empty() ? "" : ".and",
              with_guard = guard.empty() ? "" : ", " + guard;
  std::string text = "ld.global.u64 %xpuprof_at, " + slot_ + ";\nsetp.ne" + and_guard +
                     ".u64 %xpuprof_go, %xpuprof_at, 0" + with_guard + ";\n";
  if (sums_)
    text +=
        "mov.u32 %xpuprof_t0, %lanemask_lt;\n"
        "and.b32 %xpuprof_t0, %xpuprof_t0, %xpuprof_m;\n"
        "setp.eq.and.u32 %xpuprof_go, %xpuprof_t0, 0, %xpuprof_go;\n";
  return text;
}

/* %xpuprof_w0 becomes the number of threads for which this lane adds. */
std::string Counting::leaving() const {
  if (!sums_) return "mov.u64 %xpuprof_w0, 1;\n";
  return "popc.b32 %xpuprof_t0, %xpuprof_m;\ncvt.u64.u32 %xpuprof_w0, %xpuprof_t0;\n";
}

/* The last of the launch's threads sets the slot for the next launch: all others have read it,
 * because they needed its value to add themselves to `left`. */
std::string Counting::leave() const {
  auto at = [](size_t offset) { return "[%xpuprof_at+" + number(offset) + "]"; };
  return leaving() +
         "mov.u64 %xpuprof_w1, 0;\nmov.u64 %xpuprof_w2, 0;\n@%xpuprof_go ld.global.u64 "
         "%xpuprof_w1, " +
         at(offsetof(CounterHead, threads)) +
         ";\nsetp.ne.and.u64 %xpuprof_last, %xpuprof_w1, 0, %xpuprof_go;\n"
         "@%xpuprof_last atom.global.add.u64 %xpuprof_w2, " +
         at(offsetof(CounterHead, left)) +
         ", %xpuprof_w0;\nadd.u64 %xpuprof_w2, %xpuprof_w2, %xpuprof_w0;\n"
         "setp.eq.and.u64 %xpuprof_last, %xpuprof_w2, %xpuprof_w1, %xpuprof_last;\n"
         "@%xpuprof_last ld.global.u64 %xpuprof_w1, " +
         at(offsetof(CounterHead, next)) + ";\n@%xpuprof_last st.global.u64 " + slot_ +
         ", %xpuprof_w1;\n";
}

/* %xpuprof_at becomes the address of the warp's row; %xpuprof_go also, whether there is one. */
std::string Counting::row() const {
  /* The thread in the block, the block in the grid, and from both the warp. */
  return "mov.u32 %xpuprof_t0, %ntid.x;\nmov.u32 %xpuprof_t1, %ntid.y;\n"
         "mov.u32 %xpuprof_t2, %tid.z;\nmov.u32 %xpuprof_t3, %tid.y;\n"
         "mad.lo.u32 %xpuprof_t2, %xpuprof_t2, %xpuprof_t1, %xpuprof_t3;\n"
         "mov.u32 %xpuprof_t3, %tid.x;\n"
         "mad.lo.u32 %xpuprof_t2, %xpuprof_t2, %xpuprof_t0, %xpuprof_t3;\n"
         "shr.u32 %xpuprof_t2, %xpuprof_t2, 5;\n"
         "mul.lo.u32 %xpuprof_t0, %xpuprof_t0, %xpuprof_t1;\nmov.u32 %xpuprof_t1, %ntid.z;\n"
         "mad.lo.u32 %xpuprof_t0, %xpuprof_t0, %xpuprof_t1, 31;\n"
         "shr.u32 %xpuprof_t0, %xpuprof_t0, 5;\n"
         "cvt.u64.u32 %xpuprof_w3, %xpuprof_t2;\n"
         "mov.u32 %xpuprof_t1, %ctaid.z;\nmov.u32 %xpuprof_t2, %nctaid.y;\n"
         "mov.u32 %xpuprof_t3, %ctaid.y;\ncvt.u64.u32 %xpuprof_w0, %xpuprof_t3;\n"
         "mad.wide.u32 %xpuprof_w0, %xpuprof_t1, %xpuprof_t2, %xpuprof_w0;\n"
         "mov.u32 %xpuprof_t1, %nctaid.x;\ncvt.u64.u32 %xpuprof_w1, %xpuprof_t1;\n"
         "mov.u32 %xpuprof_t1, %ctaid.x;\ncvt.u64.u32 %xpuprof_w2, %xpuprof_t1;\n"
         "mad.lo.u64 %xpuprof_w0, %xpuprof_w0, %xpuprof_w1, %xpuprof_w2;\n"
         "cvt.u64.u32 %xpuprof_w1, %xpuprof_t0;\n"
         "mad.lo.u64 %xpuprof_w0, %xpuprof_w0, %xpuprof_w1, %xpuprof_w3;\n"
         "mov.u64 %xpuprof_w1, 0;\nmov.u64 %xpuprof_w2, 0;\n"
         "@%xpuprof_go ld.global.v2.u64 {%xpuprof_w1, %xpuprof_w2}, [%xpuprof_at];\n"
         "setp.lt.and.u64 %xpuprof_go, %xpuprof_w0, %xpuprof_w2, %xpuprof_go;\n"
         "@%xpuprof_go ld.global.u64 %xpuprof_w2, [%xpuprof_at+" +
         number(offsetof(CounterHead, row_bytes)) +
         "];\n"
         "mad.lo.u64 %xpuprof_at, %xpuprof_w0, %xpuprof_w2, %xpuprof_w1;\n";
}

std::string Counting::add_to(uint32_t column, const std::string &value) const {
  uint64_t offset = 8 * (uint64_t{counted_.first_column} + column);
  return "@%xpuprof_go red.global.add.u64 [%xpuprof_at+" + number(offset) + "], " + value + ";\n";
}

/* %xpuprof_w0 becomes the sum of the lanes' counters, or the lane's own. */
std::string Counting::sum(const Place &place, const std::string &when) const {
  std::string name = counter(place);
  auto of_lanes = [&](const char *part) {
    return when + "redux.sync.add.u32 %xpuprof_" + part + ", %xpuprof_" + part + ", %xpuprof_m;\n";
  };
  if (place.once)
    return "bfe.u32 %xpuprof_t0, " + name + ", " + number(place.index % 32) + ", 1;\n" +
           (sums_ ? of_lanes("t0") : "") + "cvt.u64.u32 %xpuprof_w0, %xpuprof_t0;\n";
  if (!sums_) return "mov.u64 %xpuprof_w0, " + name + ";\n";
  std::string bits = number(PART_BITS), mask = number((1u << PART_BITS) - 1);
  return "cvt.u32.u64 %xpuprof_t0, " + name + ";\nand.b32 %xpuprof_t0, %xpuprof_t0, " + mask +
         ";\n" + of_lanes("t0") + "shr.u64 %xpuprof_w0, " + name + ", " + bits +
         ";\ncvt.u32.u64 %xpuprof_t1, %xpuprof_w0;\nand.b32 %xpuprof_t1, %xpuprof_t1, " + mask +
         ";\n" + of_lanes("t1") + "shr.u64 %xpuprof_w0, " + name + ", " + number(2 * PART_BITS) +
         ";\ncvt.u32.u64 %xpuprof_t2, %xpuprof_w0;\n" + of_lanes("t2") +
         "cvt.u64.u32 %xpuprof_w0, %xpuprof_t0;\nmad.wide.u32 %xpuprof_w0, %xpuprof_t1, " +
         number(1u << PART_BITS) +
         ", %xpuprof_w0;\ncvt.u64.u32 %xpuprof_w1, %xpuprof_t2;\n"
         "shl.b64 %xpuprof_w1, %xpuprof_w1, " +
         number(2 * PART_BITS) + ";\nadd.u64 %xpuprof_w0, %xpuprof_w0, %xpuprof_w1;\n";
}

/* Before a return. Its guard chooses the lanes that leave; those together are summed. */
std::string Counting::flush(const std::string &guard) const {
  std::string when = guard.empty() ? "" : "@" + guard + " ";
  std::string text =
      "{\n.reg .pred %xpuprof_go, %xpuprof_last;\n.reg .b32 %xpuprof_m, %xpuprof_t<4>;\n"
      ".reg .b64 %xpuprof_at, %xpuprof_w<4>;\n";
  if (sums_) text += "mov.u32 %xpuprof_m, 0;\n" + when + "activemask.b32 %xpuprof_m;\n";
  text += head(guard);
  if (counted_.entry) text += leave();
  if (counted_.columns) text += row() + leaving() + add_to(0, "%xpuprof_w0");
  for (uint32_t p = 0; p < places_.size(); p++)
    text += sum(places_[p], when) + add_to(p + 1, "%xpuprof_w0");
  return text + "}\n";
}

/* ---- the text ------------------------------------------------------------------------------- */

struct Insertion {
  size_t at;
  std::string text;
};

void instrument(const Function &function, const CountedFunction &counted, const Counting &code,
                std::vector<Insertion> *insertions) {
  insertions->push_back({function.body, code.registers()});
  insertions->push_back({function.first_statement, code.start()});
  for (size_t p = 0; p < counted.probes.size(); p++)
    insertions->push_back(
        {function.code[counted.blocks[counted.probes[p]].first].begin, code.increment(p)});
  for (const Instruction &instruction : function.code)
    if (is_return(instruction))
      insertions->push_back({instruction.begin, code.flush(instruction.guard)});
}

std::string with(const std::string &text, std::vector<Insertion> insertions) {
  std::stable_sort(insertions.begin(), insertions.end(),
                   [](const Insertion &a, const Insertion &b) { return a.at < b.at; });
  std::string result;
  size_t from = 0;
  for (const Insertion &insertion : insertions) {
    result.append(text, from, insertion.at - from);
    result += insertion.text;
    from = insertion.at;
  }
  return result.append(text, from, std::string::npos);
}

std::string variable_of(const std::string &text) {
  uint8_t hash[16];
  xpu_hash128(text.data(), text.size(), hash);
  std::string name = "xpuprof_counters_";
  char digits[3];
  for (uint8_t byte : hash) {
    snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return name;
}

/* Independent of white space, comments, line numbers, and of the number that labels contain. */
std::string identity_of(const Function &function) {
  auto readable = [&](const std::string &operand) {
    auto label = function.labels.find(operand);
    return label == function.labels.end() ? operand : '#' + number(label->second);
  };
  std::string text = function.name;
  for (const Instruction &instruction : function.code) {
    text += '\n' + instruction.guard + ' ' + instruction.opcode;
    for (const std::string &operand : instruction.operands) {
      auto list = function.target_lists.find(operand);
      if (list == function.target_lists.end())
        text += ' ' + readable(operand);
      else
        for (const std::string &target : list->second) text += ' ' + readable(target);
    }
  }
  return text;
}

std::string identity_of(const Module &module, const Program &program, size_t f) {
  std::string text = identity_of(module.functions[f]);
  for (uint32_t called : program.functions[f].called) text += identity_of(module.functions[called]);
  return text;
}

}  // namespace

Program rewrite(const std::string &text, Unit unit) {
  Module module = parse(text);
  if (module.address_size != 64) throw SyntaxError("its addresses do not have 64 bits");
  Program program = {"", variable_of(text), 1, plan(module, unit)};
  for (const CountedFunction &counted : program.functions)
    program.slots = std::max(program.slots, counted.slot + 1);
  std::vector<Insertion> insertions = {{module.after_header, "\n.visible .global .align 8 .u64 " +
                                                                 program.variable + "[" +
                                                                 number(program.slots) + "];\n"}};
  for (size_t f = 0; f < program.functions.size(); f++) {
    CountedFunction &counted = program.functions[f];
    counted.identity = identity_of(module, program, f);
    if (!counted.is_counted()) continue;
    const Function &function = module.functions[f];
    instrument(function, counted, Counting(module, counted, unit, program.variable), &insertions);
  }
  program.text = with(text, insertions);
  return program;
}

}  // namespace ptx
