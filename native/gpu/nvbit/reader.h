/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the counters of launches in a thread of its own, in the order of the launches, as many at a
 * time as are over. No callback waits for a kernel: a kernel may wait for what the program does
 * after the call that launched it (persistent kernels, NCCL). */
#ifndef XPUPROF_NVBIT_READER_H
#define XPUPROF_NVBIT_READER_H

#include <stdint.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "buffers.h"
#include "xpuprof/boundary.h"

/* One launch between its call and the reading of its counters. */
struct Flight {
  CUcontext context, streams; /* the stream's, to which the event belongs */
  std::shared_ptr<Kernel> kernel;
  CounterBuffer *buffer;
  uint64_t warps, launch;
  CUevent done;
  xpu_launch shape;
  std::string reason; /* if not empty, runs uninstrumented */
};

class Reader {
 public:
  Reader(CounterMemory *memory, bool lanes) : memory_(memory), lanes_(lanes) {}
  /* The stream's work so far contains the launch. */
  void add(Flight flight, CUstream stream);
  /* Returns when every launch that was added has been read, or none for a minute: a program may end
   * while a kernel of its runs for ever. */
  void wait();
  /* The context's events are gone; call `wait` before. */
  void forget(CUcontext context);
  uint64_t strays() const { return strays_; } /* after wait() */
  uint64_t lost() const { return lost_ + unread_; }

 private:
  static void *work(void *self);
  void run();
  void take(std::deque<Flight> *flights);
  void read(std::deque<Flight> *flights);
  void lose(const Flight &flight); /* under the lock */
  void publish(const Flight &flight, const Reading &reading);
  void start();

  CounterMemory *const memory_;
  const bool lanes_;
  std::mutex lock_; /* guards the following; no driver call is made under it */
  std::deque<Flight> in_flight_;
  std::map<CUcontext, std::vector<CUevent>> events_; /* not in use */
  uint64_t reads_ = 0, unread_ = 0;
  pid_t owner_ = 0; /* the process that has the thread: a fork has not */
  std::condition_variable added_, read_;
  uint64_t strays_ = 0, lost_ = 0;
};

#endif
