// Launches: run, recorded in the order of their enqueueing, and harvested when they have finished.
#ifndef XPUPROF_OPENCL_LAUNCHES_HPP
#define XPUPROF_OPENCL_LAUNCHES_HPP

#include <functional>

#include "kernels.hpp"

namespace layer {

// A launch in a command buffer, as it was recorded.
struct RecordedLaunch {
  std::shared_ptr<Kernel> kernel;
  cl_command_queue queue = nullptr;
  cl_uint dimensions = 1;
  bool has_offset = false, has_local = false;
  size_t offset[3] = {}, global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
};

// Runs a command buffer: `native` enqueues it. Its launches run uninstrumented, since what they
// are given was fixed when they were recorded, and are recorded in their order.
cl_int replay(const std::vector<RecordedLaunch> &launches, cl_command_queue instead,
              cl_event *event, const std::function<cl_int(cl_event *)> &native);

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
