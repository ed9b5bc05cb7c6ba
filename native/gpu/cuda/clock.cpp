// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <algorithm>
#include <cmath>

ClockMap::Pair ClockMap::read_pair(uint64_t (*tsc)(), uint64_t (*nanoseconds)()) {
  Pair best = {0, 0, UINT64_MAX};
  for (int i = 0; i < 5; i++) {
    uint64_t before = tsc(), ns = nanoseconds(), after = tsc();
    uint64_t half = (after - before + 1) / 2;
    if (half < best.half_width) best = {before + half, ns, half};
  }
  return best;
}

void ClockMap::add_pair(const Pair &pair) {
  if (!pairs_.empty() && pair.nanoseconds <= pairs_.back().nanoseconds) return;
  pairs_.push_back(pair);
  widest_half_ = std::max(widest_half_, pair.half_width);
}

uint64_t ClockMap::on_line(const Pair &a, const Pair &b, uint64_t nanoseconds) {
  __int128 run = static_cast<__int128>(nanoseconds) - a.nanoseconds;
  __int128 rise = static_cast<__int128>(b.tsc) - a.tsc;
  return static_cast<uint64_t>(a.tsc +
                               run * rise / static_cast<__int128>(b.nanoseconds - a.nanoseconds));
}

uint64_t ClockMap::ticks(uint64_t nanoseconds) const {
  if (nanoseconds == 0 || pairs_.size() < 2) return 0;
  auto after =
      std::lower_bound(pairs_.begin() + 1, pairs_.end() - 1, nanoseconds,
                       [](const Pair &pair, uint64_t stamp) { return pair.nanoseconds < stamp; });
  return on_line(*(after - 1), *after, nanoseconds);
}

double ClockMap::error_ns() const {
  if (pairs_.size() < 2) return 0;
  double ns_per_tick = static_cast<double>(pairs_.back().nanoseconds - pairs_.front().nanoseconds) /
                       static_cast<double>(pairs_.back().tsc - pairs_.front().tsc);
  double residual = 0;
  for (size_t i = 1; i + 1 < pairs_.size(); i++) {
    uint64_t line = on_line(pairs_[i - 1], pairs_[i + 1], pairs_[i].nanoseconds);
    residual = std::max(residual,
                        std::fabs(static_cast<double>(static_cast<int64_t>(line - pairs_[i].tsc))));
  }
  return (static_cast<double>(widest_half_) + residual) * ns_per_tick;
}
