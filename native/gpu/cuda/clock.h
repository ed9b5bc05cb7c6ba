/* SPDX-License-Identifier: Apache-2.0 */
/* Turns CUPTI's time stamps (nanoseconds of a clock of its own) into TSC ticks, by linear
 * interpolation between pairs of readings of both clocks. */
#ifndef XPUPROF_CUDA_CLOCK_H
#define XPUPROF_CUDA_CLOCK_H

#include <stdint.h>

#include <vector>

class ClockMap {
 public:
  struct Pair {
    uint64_t tsc, nanoseconds;
    uint64_t half_width; /* ticks: the stamp was taken at tsc +- half_width */
  };
  /* Reads both clocks at one moment: the narrowest of several tries. */
  static Pair read_pair(uint64_t (*tsc)(), uint64_t (*nanoseconds)());
  void add_pair(const Pair &pair);
  /* 0 (unknown) before two pairs exist, and for a stamp of 0. */
  uint64_t ticks(uint64_t nanoseconds) const;
  /* How far a converted stamp may be off, in nanoseconds: half the widest pair, and the largest
   * distance of a pair from the line between its neighbours. CUPTI's own error between the device's
   * clock and its own is not included. */
  double error_ns() const;

 private:
  static uint64_t on_line(const Pair &a, const Pair &b, uint64_t nanoseconds);
  std::vector<Pair> pairs_;
  uint64_t widest_half_ = 0;
};

#endif
