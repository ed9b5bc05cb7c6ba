/* SPDX-License-Identifier: Apache-2.0 */
/* Per-thread counters: one 64-bit counter a block, in a reservation that the system fills with
 * zero pages as blocks are met. Counting is an increment off a register that Pin keeps for us; a
 * thread that must not be counted has that register point at a dummy array, so that switching
 * costs nothing where code runs. */
#ifndef XPUPROF_PIN_THREADS_H
#define XPUPROF_PIN_THREADS_H

#include <stdint.h>

#include <vector>

#include "pin.H"

enum { MOST_BLOCKS = 1 << 23 };

struct Thread {
  uint32_t number;               /* dense, among the threads that count */
  bool counted;                  /* false: belongs to the device runtime, for good */
  bool clone_excluded;           /* its clone under way happens inside the device runtime */
  int api_depth;                 /* calls into the device runtime that it is in */
  std::vector<int> saved_depths; /* of the calls that led to callbacks into user code */
  uint64_t *counts;              /* MOST_BLOCKS */
  uint64_t *cut;                 /* what `counts` was at the last cut */
  OS_THREAD_ID system_id;

  uint64_t *target(uint64_t *dummy) const { return counted && !api_depth ? counts : dummy; }
};

uint64_t *reserve_counters();

#endif
