// Launches: run, recorded in the order of their enqueueing, and harvested when they have finished.
#ifndef XPUPROF_OPENCL_LAUNCHES_HPP
#define XPUPROF_OPENCL_LAUNCHES_HPP

#include <functional>

#include "kernels.hpp"

namespace layer {

struct Range {
  cl_uint dimensions;
  const size_t *offset, *global, *local;
};

// A launch in a command buffer, as it was recorded, with counter memory of its own.
struct RecordedLaunch;
using RecordedLaunches = std::vector<std::shared_ptr<RecordedLaunch>>;

// Records a launch: `native` puts the given kernel with the given local size into the command
// buffer. A command that the application may change later is recorded as it is.
cl_int record(cl_command_queue queue, cl_kernel kernel, const Range &range, bool changeable,
              RecordedLaunches *launches,
              const std::function<cl_int(cl_kernel, const size_t *local)> &native);

using WaitList = std::vector<cl_event>;
// Runs a command buffer: `native` enqueues it, behind the given events too.
cl_int replay(const RecordedLaunches &launches, cl_command_queue instead, cl_event *event,
              const std::function<cl_int(const WaitList &, cl_event *)> &native);

// The command buffer is gone.
void forget_recorded(RecordedLaunches launches);

// Takes in whatever has finished; never waits.
void poll_all();
// After a call in which the application waited for the device: waits for copies of counters too.
void settle();

// The application let go of the context: our memory in it goes too, as soon as it is idle.
void close_context(Context &context);

// The end of the process, or of the layer: waits a little for launches that are still running.
void finish();

}  // namespace layer
#endif
