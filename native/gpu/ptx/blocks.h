/* SPDX-License-Identifier: Apache-2.0 */
/* Basic blocks of a PTX function and its control flow. A block ends at a branch, at a return or
 * exit, and before a label that a branch leads to. Calls and barriers do not end it: the threads
 * that execute one also execute what follows. */
#ifndef XPUPROF_PTX_BLOCKS_H
#define XPUPROF_PTX_BLOCKS_H

#include <stdint.h>

#include <string>
#include <vector>

#include "module.h"
#include "xpuprof/boundary.h"

namespace ptx {

struct Block {
  uint32_t first, end;              /* indices of its instructions */
  std::vector<uint32_t> successors; /* without duplicates */
  bool leaves;                      /* threads may leave the function at its end */
  uint32_t depth;                   /* of loops around it; 0: executed at most once by a thread */
  xpu_block content;                /* number and classes of its instructions */
};

/* In the order of the text; block 0 is the entry. Throws SyntaxError when a branch leads nowhere.
 */
std::vector<Block> find_blocks(const Function &function);

/* Whether threads leave the function here (`ret`, `exit`), or the kernel (`exit`, `trap`). */
bool is_return(const Instruction &instruction);
bool ends_thread(const Instruction &instruction);

/* enum xp_mix of an instruction. */
int mix_of(const Instruction &instruction);

}  // namespace ptx

#endif
