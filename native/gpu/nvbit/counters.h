/* SPDX-License-Identifier: Apache-2.0 */
/* A launch's counters in device memory: this head, then warps x (row + 1) counters of 64 bits,
 * row-major, one row a logical warp (linear block id, then warp in the block). The last of each row
 * holds the warp's lane instructions: each instruction once for every lane that executed it, from
 * which the divergence efficiency comes. Shared by host and device. */
#ifndef XPUPROF_NVBIT_COUNTERS_H
#define XPUPROF_NVBIT_COUNTERS_H

#include <stdint.h>

struct CounterHead {
  uint64_t warps;     /* rows */
  uint32_t row;       /* blocks a row: those of the kernel and of the functions that it calls */
  uint32_t lanes;     /* 1: a block counts once an active lane, 0: once a warp */
  uint64_t bases;     /* device address: for each function number its first column, or NO_COLUMN */
  uint64_t functions; /* entries there; a function pointer may lead to one that is not among them */
  uint64_t strays;    /* counts that had no place: must be 0 */
  uint64_t lane_instructions; /* of all warps, added up when the rows are hashed */
};

enum : uint32_t { NO_COLUMN = 0xffffffffu };

#endif
