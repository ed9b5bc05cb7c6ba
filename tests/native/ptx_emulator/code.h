/* SPDX-License-Identifier: Apache-2.0 */
/* A PTX module as the emulator executes it. */
#ifndef XPUPROF_PTX_EMULATOR_CODE_H
#define XPUPROF_PTX_EMULATOR_CODE_H

#include <stdint.h>

#include <map>
#include <string>
#include <vector>

namespace emulator {

struct Type {
  char kind = 'b'; /* s, u, b, f; p: predicate */
  uint32_t bytes = 4;
};

struct Operand {
  enum Kind { REGISTER, NUMBER, SYMBOL, ADDRESS, LIST, NONE } kind = NONE;
  uint32_t index = 0; /* of the register */
  bool negated = false;
  uint64_t value = 0;        /* of a number; the offset of an address */
  std::string name;          /* a symbol; the base of an address when no register is */
  bool based = false;        /* an address with a register */
  std::vector<Operand> list; /* a vector, or both results of `p|q` */
};

struct Instruction {
  Operand guard;
  std::string op;                    /* `ld` */
  std::vector<std::string> suffixes; /* `global`, `u32` */
  std::vector<Type> types;           /* those among the suffixes */
  std::vector<Operand> operands;
  std::vector<size_t> targets; /* of a branch */
  size_t joins = 0;            /* where lanes that diverge here meet again */
  bool has(const char *suffix) const;
};

struct Variable {
  std::string name;
  uint64_t offset = 0, bytes = 0; /* in its space */
};

struct Function {
  std::string name;
  bool entry = false;
  std::vector<Variable> inputs, outputs;
  std::map<std::string, Variable> params; /* all, with those declared in the body */
  std::map<std::string, Variable> locals;
  uint64_t param_bytes = 0, local_bytes = 0;
  std::map<std::string, uint32_t> registers;
  std::map<std::string, size_t> labels;
  std::map<std::string, std::vector<std::string>> lists;
  std::vector<Instruction> code;
};

struct Code {
  std::map<std::string, Function> functions;
  std::map<std::string, std::vector<uint8_t>> globals;
  std::map<std::string, Variable> shared;
  std::string dynamic; /* the array that the launch sizes */
  uint64_t shared_bytes = 0;
};

Code parse(const std::string &text);

}  // namespace emulator

#endif
