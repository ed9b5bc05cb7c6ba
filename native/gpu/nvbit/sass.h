/* SPDX-License-Identifier: Apache-2.0 */
/* Basic blocks of SASS, the machine code of NVIDIA devices, from its disassembly.
 *
 * A block is a stretch that a warp's active lanes enter at the top and leave at the bottom
 * together, so that counting its first instruction counts them all. It therefore ends not only at
 * branches but wherever the set of active lanes may change: at a (predicated) EXIT, where lanes
 * terminate; at BSYNC and WARPSYNC, where diverged lanes reconverge; at calls and returns. The
 * targets of indirect branches (BRX) come from the cubin; a function with one whose targets are not
 * there is cut at every instruction: exact but slower. */
#ifndef XPUPROF_SASS_H
#define XPUPROF_SASS_H

#include <stdint.h>

#include <map>
#include <string>
#include <vector>

#include "xpuprof/boundary.h"

struct SassInstruction {
  uint32_t offset;  /* bytes from the start of the function */
  std::string text; /* as nvdisasm prints it: `@P0 BRA 0x1a0 ;` */
};

struct SassBlock {
  uint32_t first; /* index of its first instruction */
  xpu_block block;
};

/* Offset of each indirect branch, and of its targets. */
using SassTargets = std::map<uint32_t, std::vector<uint32_t>>;

/* The function's blocks in the order of their addresses; they cover every instruction. */
std::vector<SassBlock> sass_blocks(const std::vector<SassInstruction> &code,
                                   const SassTargets &targets);

/* Why blocks cannot be found: a branch leads to a place where the function has no instruction, so
 * that offsets and disassembly do not belong together. Empty when all is well. */
std::string sass_fault(const std::vector<SassInstruction> &code, const SassTargets &targets);

/* `@!UP0 IMAD.WIDE R2, ...` -> `IMAD.WIDE`. */
std::string sass_opcode(const std::string &text);

/* enum xp_mix of an opcode. */
int sass_mix(const std::string &opcode);

#endif
