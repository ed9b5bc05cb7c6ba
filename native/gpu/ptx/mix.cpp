// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "blocks.h"
#include "xpuprof/trace_format.h"

namespace ptx {
namespace {

bool is_one_of(const std::string &base, const std::set<std::string> &list) {
  return list.count(base) != 0;
}

bool is_load(const std::string &base) {
  return is_one_of(base, {"ld", "ldu", "ldmatrix", "prefetch", "prefetchu", "tensormap"});
}

bool is_store(const std::string &base) { return is_one_of(base, {"st", "stmatrix"}); }

bool is_atomic(const std::string &base) { return is_one_of(base, {"atom", "red", "multimem"}); }

bool is_barrier(const std::string &base) {
  return is_one_of(base, {"bar", "barrier", "mbarrier", "membar", "fence"});
}

bool is_control(const std::string &base) {
  return is_one_of(base, {"bra", "brx", "call", "ret", "exit", "trap", "brkpt"});
}

bool is_special(const std::string &base) {
  return is_one_of(
      base,
      {"sin",  "cos",   "ex2",   "lg2",   "rcp",        "rsqrt",   "sqrt",      "tanh",
       "tex",  "tld4",  "txq",   "suld",  "sust",       "sured",   "suq",       "shfl",
       "vote", "match", "elect", "redux", "activemask", "istypep", "nanosleep", "griddepcontrol"});
}

bool is_matrix(const std::string &base) {
  return is_one_of(base, {"mma", "wmma", "wgmma", "tcgen05"});
}

/* cp.async and its like move data between two memories: global loads. */
bool is_copy(const std::string &base) { return base == "cp"; }

bool is_floating(const Instruction &instruction) {
  for (const char *type : {".f16", ".f16x2", ".bf16", ".bf16x2", ".f32", ".f32x2", ".f64", ".tf32"})
    if (instruction.has(type)) return true;
  return false;
}

int load_mix(const Instruction &instruction) {
  if (instruction.has(".local")) return XP_MIX_PRIVATE;
  return instruction.has(".shared") || instruction.has(".shared::cta") ||
                 instruction.base() == "ldmatrix"
             ? XP_MIX_LOAD_LOCAL
             : XP_MIX_LOAD_GLOBAL;
}

int store_mix(const Instruction &instruction) {
  if (instruction.has(".local")) return XP_MIX_PRIVATE;
  return instruction.has(".shared") || instruction.has(".shared::cta") ||
                 instruction.base() == "stmatrix"
             ? XP_MIX_STORE_LOCAL
             : XP_MIX_STORE_GLOBAL;
}

}  // namespace

int mix_of(const Instruction &instruction) {
  std::string base = instruction.base();
  if (is_copy(base)) return XP_MIX_LOAD_GLOBAL;
  if (is_load(base)) return instruction.has(".param") ? XP_MIX_OTHER : load_mix(instruction);
  if (is_store(base)) return instruction.has(".param") ? XP_MIX_OTHER : store_mix(instruction);
  if (is_atomic(base)) return XP_MIX_ATOMIC;
  if (is_barrier(base)) return XP_MIX_BARRIER;
  if (is_control(base)) return XP_MIX_BRANCH;
  if (is_special(base)) return XP_MIX_SPECIAL;
  if (is_matrix(base)) return XP_MIX_FP;
  if (base == "mov" || base == "cvt" || base == "cvta") return XP_MIX_INT;
  return is_floating(instruction) ? XP_MIX_FP : XP_MIX_INT;
}

}  // namespace ptx
