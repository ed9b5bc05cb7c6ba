/* SPDX-License-Identifier: Apache-2.0 */
/* The run's clock, without a C library: the stamps of the CPU engines. */
#ifndef XPUPROF_CLOCK_H
#define XPUPROF_CLOCK_H

#include <asm/unistd.h>
#include <stdint.h>

#include "system_call.h"

/* As xpu_tsc() of the boundary: rdtscp, or CLOCK_MONOTONIC_RAW in nanoseconds. */
static inline uint64_t xp_clock(int raw) {
  enum { MONOTONIC_RAW = 4 };
  uint64_t now[2] = {0, 0};
  uint32_t low, high;
  if (raw) {
    xp_system_call(__NR_clock_gettime, MONOTONIC_RAW, (long)now, 0, 0);
    return now[0] * 1000000000u + now[1];
  }
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high) : : "rcx");
  return (uint64_t)high << 32 | low;
}

#endif
