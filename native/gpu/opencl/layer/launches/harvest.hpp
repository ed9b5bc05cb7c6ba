// SPDX-License-Identifier: Apache-2.0
// Launches in flight, and the harvest when they finish.
#ifndef XPUPROF_OPENCL_HARVEST_HPP
#define XPUPROF_OPENCL_HARVEST_HPP

#include <deque>

#include "launches/plan.hpp"

namespace layer {

// A launch with its memory.
struct Planned {
  Plan plan;
  Room room;
};

// A launch not yet seen to finish.
struct Pending {
  uint64_t launch = 0;
  cl_event event = nullptr;   // our own reference
  cl_int status = CL_QUEUED;  // as last seen
  uint64_t seen = 0;          // when it was first seen finished
  cl_ulong device_end = 0;    // by the device's clock
  std::shared_ptr<Queue> queue;
  std::unique_ptr<Planned> instrumented;  // NULL: it is not
};

// One lock over enqueueing and recording: the order of slices is the order of enqueueing.
// Recursive, because a driver may call user code from within an enqueue.
using OrderLock = std::recursive_mutex;
extern OrderLock &order;
extern std::map<uint32_t, std::deque<Pending>> &pending;  // by queue; guarded by `order`

cl_int status_of(cl_event event);

// Callers hold `order`.
void poll_queue(
    const Queue &queue);  // harvests the queue's finished launches, not far after others
void poll_locked();       // all queues'
void harvest(Pending *finished);

// Harvests whatever has finished; never waits.
void poll_all();
// After a call in which the application waited for the device: also waits for copies of counters.
void settle();

// The awaited command may depend on an unflushed command in another queue.
void flush_all();

// A recorded launch holds much memory, so its end is awaited to free the room for the next. The
// wait is bounded, since the launch may wait for the application (which shares memory with it).
void wait_while_recording(uint32_t queue, uint64_t launch);

// How long a thread of the application is kept waiting for a launch that may wait for it: at first,
// and where it had to be given up once.
constexpr double first_patience_s = 20, later_patience_s = 0.05;

void nap();
double seconds();

// The application released the context: our memory in it is freed as soon as it is idle.
void close_context(Context &context);

// Reports the width of the clocks' correlation.
void report_clocks();

}  // namespace layer
#endif
