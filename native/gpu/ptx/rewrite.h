/* SPDX-License-Identifier: Apache-2.0 */
/* Adds block counters to PTX.
 *
 * The text is only added to, and what is added neither branches nor carries a label: the control
 * flow stays the program's. A thread counts blocks in registers of its own. Where it leaves its
 * function, the leader of the lanes that leave together adds their sums to its warp's row of
 * counters. The rows' head is found through a slot of the module's variable, which the host sets.
 * A graph launches kernels that the host cannot set it between: there the last thread of a launch
 * sets it for the next. */
#ifndef XPUPROF_PTX_REWRITE_H
#define XPUPROF_PTX_REWRITE_H

#include <stdint.h>

#include <string>
#include <vector>

#include "blocks.h"
#include "instrumenter/flow.h"

namespace ptx {

enum class Unit {
  LANE, /* a block counts once for each thread that executes it; few blocks need a counter */
  WARP, /* a block counts once for each group of lanes that executes it together */
};

/* What a slot points to. A row has 64-bit counters and belongs to a logical warp. */
struct CounterHead {
  uint64_t first_row; /* its address */
  uint64_t rows, row_bytes;
  uint64_t threads; /* of the launch, the last of which sets the slot to `next`; 0: nobody does */
  uint64_t next;
  uint64_t left; /* threads that have left, when the launch has `threads` */
};

struct CountedFunction {
  std::string name;
  bool entry;
  std::string identity; /* its instructions, and those of the functions that it may reach */
  std::string reason;   /* why it cannot be counted; empty: it is */
  std::vector<Block> blocks;
  /* Its counters in a row: threads that have left it, then one per probe. None when its blocks'
   * counts follow from the launch. */
  uint32_t first_column, columns;
  std::vector<uint32_t> probes;                      /* blocks that have a counter */
  std::vector<std::vector<clinst::Term>> derivation; /* of each block; probe -1: threads */
  std::vector<uint32_t> called;                      /* functions that it may reach, in order */
  /* Of the variable: 0 is shared by functions that kernels call and by kernels that call; another
   * kernel has its own. */
  uint32_t slot;
  /* Whether it reads its slot. */
  bool is_counted() const { return columns || (entry && !called.empty()); }
};

struct Program {
  std::string text;
  std::string variable; /* its name follows from the original text */
  uint32_t slots;       /* of 64 bits */
  std::vector<CountedFunction> functions;
};

/* Throws SyntaxError. */
Program rewrite(const std::string &text, Unit unit);

/* Counters in a row of the kernel's launches. */
uint32_t row_columns(const CountedFunction &kernel);

/* Blocks of the kernel, then of the functions that it may reach. */
std::vector<xpu_block> blocks_of(const Program &program, const CountedFunction &kernel);

/* Their counts, from the row of a warp with `threads` threads. False when a thread left the kernel
 * unseen: there are no counts then. */
bool counts_of(const Program &program, const CountedFunction &kernel, const uint64_t *row,
               uint32_t threads, std::vector<uint64_t> *counts);

}  // namespace ptx

#endif
