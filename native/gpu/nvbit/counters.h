/* SPDX-License-Identifier: Apache-2.0 */
/* A launch's counters in device memory: this head, then warps x (row + 1) counters of 64 bits,
 * row-major, one row per logical warp (linear block id, then warp in the block). The last counter
 * of each row holds the warp's lane instructions: each instruction once for every lane that
 * executed it, which gives the divergence efficiency. Shared by host and device. */
#ifndef XPUPROF_NVBIT_COUNTERS_H
#define XPUPROF_NVBIT_COUNTERS_H

#include <stdint.h>

struct CounterHead {
  uint64_t warps;             /* rows */
  uint32_t row;               /* blocks per row: of the kernel and of the functions it calls */
  uint32_t lanes;             /* 1: a block counts once per active lane, 0: once per warp */
  uint64_t bases;             /* device address of each function's first column, or NO_COLUMN */
  uint64_t functions;         /* its entries; a function pointer may lead to a function outside */
  uint64_t strays;            /* counts without a column: must be 0 */
  uint64_t lane_instructions; /* over all warps, summed when the rows are hashed */
};

enum : uint32_t { NO_COLUMN = 0xffffffffu };

#endif
