/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the counters of launches in a thread of its own, in the order of the launches. No callback
 * waits for a kernel: a kernel may wait for what the program does after the call that launched it
 * (persistent kernels, NCCL). */
#ifndef XPUPROF_NVBIT_READER_H
#define XPUPROF_NVBIT_READER_H

#include <stdint.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

#include "buffers.h"
#include "xpuprof/boundary.h"

/* One launch between its call and the reading of its counters. */
struct Flight {
  CUcontext context;
  Kernel kernel; /* a copy: its module may be unloaded while it runs */
  CounterBuffer *buffer;
  uint64_t warps, launch;
  CUevent done;
  xpu_launch shape;
  std::string reason; /* if not empty, runs uninstrumented */
};

class Reader {
 public:
  Reader(CounterMemory *memory, bool lanes) : memory_(memory), lanes_(lanes) {}
  void add(const Flight &flight);
  /* Returns when every launch that was added has been read, or none for a minute: a program may end
   * while a kernel of its runs for ever. */
  void wait();
  uint64_t strays() const { return strays_; } /* after wait() */
  uint64_t lost() const { return lost_ + in_flight_.size(); }

 private:
  static void *work(void *self);
  void run();
  void read(const Flight &flight);

  CounterMemory *const memory_;
  const bool lanes_;
  std::mutex lock_; /* guards the three below; no driver call is made under it */
  std::deque<Flight> in_flight_;
  uint64_t reads_ = 0;
  pid_t owner_ = 0; /* the process that has the thread: a fork has not */
  std::condition_variable added_, read_;
  uint64_t strays_ = 0, lost_ = 0;
};

#endif
