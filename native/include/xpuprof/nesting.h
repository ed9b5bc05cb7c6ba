/* SPDX-License-Identifier: Apache-2.0 */
/* How deep a thread is in calls into the device runtime and, inside, back into the program
 * (boundary.h). CPU engines keep it for each thread, libxpuprof_rt for one that no engine sees. */
#ifndef XPUPROF_NESTING_H
#define XPUPROF_NESTING_H

#include <stdbool.h>
#include <stdint.h>

enum { XPU_MAX_NEST = 64 };

/* Bit d of `off`: at depth d + 1 counting is off. */
static inline bool nesting_is_off(uint32_t depth, uint64_t off) {
  if (depth > XPU_MAX_NEST) depth = XPU_MAX_NEST;
  return depth && (off >> (depth - 1) & 1);
}

/* A thread enters the device runtime, or one of its callbacks, where it counts. */
static inline void nesting_enter(uint32_t *depth, uint64_t *off, bool count) {
  if (*depth < XPU_MAX_NEST) {
    *off &= ~(1ull << *depth);
    if (!count) *off |= 1ull << *depth;
  }
  ++*depth;
}

#endif
