// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <time.h>

#include <algorithm>

#include "dispatch.h"
#include "xpuprof/boundary.h"

/* Ticks in 2^32 nanoseconds. */
static unsigned __int128 rate = 0;

static uint64_t raw_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

/* The narrowest of several tries: this thread may lose its processor between the two clocks. */
template <typename Clock>
CuptiClock::Pair CuptiClock::read_pair(Clock nanoseconds) {
  Pair best = {0, 0, UINT64_MAX};
  for (int i = 0; i < 5; i++) {
    uint64_t before = xpu_tsc(), ns = nanoseconds(), half = (xpu_tsc() - before + 1) / 2;
    if (half < best.half_width) best = {before + half, ns, half};
  }
  return best;
}

/* Kernels' lengths, which are in nanoseconds of the device, are as right as this. */
void CuptiClock::measure_rate() {
  const Pair start = read_pair(raw_ns);
  while (raw_ns() - start.nanoseconds < 1000000) {
  }
  const Pair end = read_pair(raw_ns);
  rate = (static_cast<unsigned __int128>(end.tsc - start.tsc) << 32) /
         (end.nanoseconds - start.nanoseconds);
}

static uint64_t CUPTIAPI our_ns() {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(xpu_tsc()) << 32) / rate);
}

static uint64_t cuptis_ns() {
  uint64_t ns = 0;
  cupti.cuptiGetTimestamp(&ns);
  return ns;
}

void CuptiClock::start() {
  measure_rate();
  is_ours_ = cupti.cuptiActivityRegisterTimestampCallback &&
             cupti.cuptiActivityRegisterTimestampCallback(our_ns) == CUPTI_SUCCESS;
  if (!is_ours_) first_ = read_pair(cuptis_ns);
}

void CuptiClock::read() {
  if (is_ours_) return;
  Pair pair = read_pair(cuptis_ns);
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
