// SPDX-License-Identifier: Apache-2.0
// Launches under way, and what is taken in of them when they have finished.
#ifndef XPUPROF_OPENCL_HARVEST_HPP
#define XPUPROF_OPENCL_HARVEST_HPP

#include <deque>

#include "launches/plan.hpp"

namespace layer {

// A launch whose end we have not seen yet.
struct Pending {
  uint64_t launch = 0;
  cl_event event = nullptr;   // a reference of ours
  cl_int status = CL_QUEUED;  // as last seen
  uint64_t seen = 0;          // when it was first seen finished
  std::shared_ptr<Queue> queue;
  Plan plan;
  Room room;
};

// One lock over enqueueing and recording: the order of slices is the order of enqueueing.
// Recursive, because a driver may call user code from within an enqueue.
using OrderLock = std::recursive_mutex;
extern OrderLock &order;
extern std::map<uint32_t, std::deque<Pending>> &pending;  // by queue; guarded by `order`

cl_int status_of(cl_event event);

// These want `order` held.
void poll_queue(
    const Queue &queue);  // takes in the queue's finished launches, not far behind others
void poll_locked();       // all queues'
void harvest(Pending *finished);

// Takes in whatever has finished; never waits.
void poll_all();
// After a call in which the application waited for the device: waits for copies of counters too.
void settle();

// What we wait for may wait for a command that stands unflushed in another queue.
void flush_all();

// A recorded launch holds much memory: its end is awaited, so that the next one finds the room
// free. Not for ever, since it may wait for the application (which shares memory with it).
void wait_while_recording(uint32_t queue, uint64_t launch);

void nap();
double seconds();

// The application let go of the context: our memory in it goes too, as soon as it is idle.
void close_context(Context &context);

// Tells the width of the clocks' correlation.
void report_clocks();

}  // namespace layer
#endif
