/* SPDX-License-Identifier: Apache-2.0 */
/* Per-thread counters, in a reservation that the system fills with zero pages on first use.
 * Counting is an increment and a mark relative to a register reserved by Pin; for a thread that
 * must not count the register points at counters that nobody reads, so switching costs nothing in
 * the instrumented code. */
#ifndef XPUPROF_PIN_THREADS_H
#define XPUPROF_PIN_THREADS_H

#include <stdint.h>

#include <vector>

#include "pin.H"

enum { MOST_BLOCKS = 1 << 23, GROUP = 32 };

struct Counters {
  uint64_t count[MOST_BLOCKS];        /* executions of the block, never reset */
  uint8_t marks[MOST_BLOCKS / GROUP]; /* set after counting: a cut reads marked groups only */
  uint64_t cut[MOST_BLOCKS];          /* `count` at the last cut */
};

struct Thread {
  uint32_t number;               /* dense, among counting threads */
  bool counted;                  /* false: belongs to the device runtime, permanently */
  bool ended;                    /* its last vector may not be cut yet */
  bool creates;                  /* calls the system for a thread that is not known yet */
  int api_depth;                 /* depth of calls into the device runtime */
  std::vector<int> saved_depths; /* depths of the calls that led to callbacks into user code */
  Counters *counters;
  OS_THREAD_ID system_id;

  Counters *target(Counters *nobody) const { return counted && !api_depth ? counters : nobody; }
};

Counters *reserve_counters();
void release_counters(Counters *counters);

#endif
