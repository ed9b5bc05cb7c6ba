/* SPDX-License-Identifier: Apache-2.0 */
#include <cpuid.h>
#include <time.h>
#include <x86intrin.h>

#include "bridge.h"

uint64_t xp_tsc_now(void) {
  unsigned aux;
  return __rdtscp(&aux);
}

int32_t xp_tsc_invariant(void) {
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
}

uint64_t xp_tsc_hz_from_cpuid(void) {
  unsigned denominator, numerator, crystal_hz, d;
  if (!__get_cpuid(0x15, &denominator, &numerator, &crystal_hz, &d)) return 0;
  if (!denominator || !numerator || !crystal_hz) return 0;
  return (uint64_t)crystal_hz * numerator / denominator;
}

static uint64_t raw_ns_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void xp_clock_pair(uint64_t *tsc, uint64_t *raw_ns) {
  uint64_t narrowest = UINT64_MAX;
  for (int i = 0; i < 16; i++) {
    uint64_t before = raw_ns_now(), ticks = xp_tsc_now(), after = raw_ns_now();
    if (after - before < narrowest) {
      narrowest = after - before;
      *tsc = ticks;
      *raw_ns = before + narrowest / 2;
    }
  }
}
