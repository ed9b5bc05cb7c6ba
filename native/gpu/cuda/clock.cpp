// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <time.h>

#include <algorithm>

#include "dispatch.h"
#include "xpuprof/boundary.h"

/* Ticks in 2^32 nanoseconds; about right is enough, because both directions use it. */
static unsigned __int128 rate = 0;

static uint64_t raw_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

static void measure_rate() {
  uint64_t tsc = xpu_tsc(), start = raw_ns(), ns;
  do ns = raw_ns();
  while (ns - start < 1000000);
  rate = (static_cast<unsigned __int128>(xpu_tsc() - tsc) << 32) / (ns - start);
}

static uint64_t CUPTIAPI our_ns() {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(xpu_tsc()) << 32) / rate);
}

void CuptiClock::start() {
  measure_rate();
  is_ours_ = cupti.cuptiActivityRegisterTimestampCallback &&
             cupti.cuptiActivityRegisterTimestampCallback(our_ns) == CUPTI_SUCCESS;
  if (!is_ours_) first_ = read_pair();
}

/* The narrowest of several tries. */
CuptiClock::Pair CuptiClock::read_pair() {
  Pair best = {0, 0, UINT64_MAX};
  for (int i = 0; i < 5; i++) {
    uint64_t ns = 0, before = xpu_tsc();
    cupti.cuptiGetTimestamp(&ns);
    uint64_t half = (xpu_tsc() - before + 1) / 2;
    if (half < best.half_width) best = {before + half, ns, half};
  }
  return best;
}

void CuptiClock::read() {
  if (is_ours_) return;
  Pair pair = read_pair();
  widest_half_ = std::max({widest_half_, first_.half_width, pair.half_width});
  if (pair.nanoseconds > first_.nanoseconds) last_ = pair;
}

uint64_t CuptiClock::ticks(uint64_t nanoseconds) const {
  if (nanoseconds == 0) return 0;
  if (is_ours_) return static_cast<uint64_t>(nanoseconds * rate >> 32);
  if (!last_.nanoseconds) return 0;
  auto run = static_cast<__int128>(nanoseconds) - first_.nanoseconds;
  auto rise = static_cast<__int128>(last_.tsc) - first_.tsc;
  return static_cast<uint64_t>(first_.tsc + run * rise / (last_.nanoseconds - first_.nanoseconds));
}

double CuptiClock::error_ns() const {
  if (is_ours_) return 1;
  return static_cast<double>((static_cast<unsigned __int128>(widest_half_) << 32) / rate);
}
