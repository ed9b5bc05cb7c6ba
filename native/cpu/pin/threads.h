/* SPDX-License-Identifier: Apache-2.0 */
/* Per-thread counters: one 64-bit counter per block, in a reservation that the system fills with
 * zero pages on first use. Counting is an increment relative to a register reserved by Pin; for a
 * thread that must not count the register points at a dummy array, so switching costs nothing in
 * the instrumented code. */
#ifndef XPUPROF_PIN_THREADS_H
#define XPUPROF_PIN_THREADS_H

#include <stdint.h>

#include <vector>

#include "pin.H"

enum { MOST_BLOCKS = 1 << 23 };

struct Thread {
  uint32_t number;               /* dense, among counting threads */
  bool counted;                  /* false: belongs to the device runtime, permanently */
  bool clone_excluded;           /* its current clone happens inside the device runtime */
  int api_depth;                 /* depth of calls into the device runtime */
  std::vector<int> saved_depths; /* depths of the calls that led to callbacks into user code */
  uint64_t *counts;              /* MOST_BLOCKS */
  uint64_t *cut;                 /* `counts` at the last cut */
  OS_THREAD_ID system_id;

  uint64_t *target(uint64_t *dummy) const { return counted && !api_depth ? counts : dummy; }
};

uint64_t *reserve_counters();

#endif
