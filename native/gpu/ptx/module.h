/* SPDX-License-Identifier: Apache-2.0 */
/* PTX text as statements. Every statement keeps its place in the text, so that the rewriter only
 * inserts: what it does not understand stays as it was. */
#ifndef XPUPROF_PTX_MODULE_H
#define XPUPROF_PTX_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptx {

/* The text is not PTX as the rewriter knows it. */
struct SyntaxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Instruction {
  size_t begin, end;                 /* offsets in the text; the end is after the semicolon */
  std::string guard;                 /* `%p1` or `!%p1`; empty: none */
  std::string opcode;                /* with its suffixes: `ld.global.u32` */
  std::vector<std::string> operands; /* split at outer commas: `%r1`, `[%rd1+4]`, `{%f1, %f2}` */
  uint32_t line;                     /* of the source file, from .loc; 0: unknown */
  std::string base() const { return opcode.substr(0, opcode.find('.')); }
  bool has(const char *suffix) const; /* `.uni` */
};

struct Function {
  std::string name;
  bool entry;             /* a kernel */
  bool defined;           /* has a body */
  size_t begin, end;      /* the whole of it */
  size_t body;            /* after the opening brace */
  size_t first_statement; /* the first label or instruction */
  std::vector<Instruction> code;
  std::map<std::string, size_t> labels;                         /* index of the next instruction */
  std::map<std::string, std::vector<std::string>> target_lists; /* .branchtargets */
};

struct Module {
  std::string text;
  unsigned version; /* 8.7 is 807 */
  unsigned target;  /* sm_90a is 90 */
  unsigned address_size;
  size_t after_header; /* where module-scope variables may be declared */
  std::vector<Function> functions;
};

/* Throws SyntaxError. */
Module parse(const std::string &text);

}  // namespace ptx

#endif
