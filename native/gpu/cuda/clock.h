/* SPDX-License-Identifier: Apache-2.0 */
/* Turns CUPTI's time stamps into ticks of the run's clock.
 *
 * CUPTI stamps records with a clock that a tool may provide; ours is the run's clock, in
 * nanoseconds of a fixed rate, so every stamp is turned back exactly. Its own clock is
 * CLOCK_REALTIME, which may step: it is used only where CUPTI (before CUDA 11.6) does not take
 * ours, on the line through the first and the latest pair of readings. */
#ifndef XPUPROF_CUDA_CLOCK_H
#define XPUPROF_CUDA_CLOCK_H

#include <stdint.h>

class CuptiClock {
 public:
  /* Before any kind of record is enabled. */
  void start();
  /* Reads both clocks, if they are two. */
  void read();
  /* 0 (unknown) for a stamp of 0, and before there are two readings. */
  uint64_t ticks(uint64_t nanoseconds) const;
  /* How far a converted stamp may be off. CUPTI's own error between the device's clock and this one
   * is not included. */
  double error_ns() const;

 private:
  struct Pair {
    uint64_t tsc, nanoseconds, half_width; /* the stamp was taken at tsc +- half_width */
  };
  template <typename Clock>
  static Pair read_pair(Clock nanoseconds);
  static void measure_rate();
  bool is_ours_ = false;
  Pair first_ = {}, last_ = {};
  uint64_t widest_half_ = 0;
};

#endif
