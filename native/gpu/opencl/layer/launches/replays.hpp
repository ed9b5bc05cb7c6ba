// Launches of command buffers: recorded once, run many times.
#ifndef XPUPROF_OPENCL_REPLAYS_HPP
#define XPUPROF_OPENCL_REPLAYS_HPP

#include <functional>

#include "launches/plan.hpp"

namespace layer {

// A launch in a command buffer, as it was recorded, with counter memory of its own.
struct RecordedLaunch;
using RecordedLaunches = std::vector<std::shared_ptr<RecordedLaunch>>;

// Puts a kernel with a local size into the command buffer.
using Put = std::function<cl_int(cl_kernel, const size_t *local)>;
// Records a launch. A command that the application may change later is recorded as it is.
cl_int record(cl_command_queue queue, cl_kernel kernel, const Range &range, bool changeable,
              RecordedLaunches *launches, const Put &native);

// Enqueues a command buffer, behind these events too.
using WaitList = std::vector<cl_event>;
using Enqueue = std::function<cl_int(const WaitList &, cl_event *)>;
cl_int replay(const RecordedLaunches &launches, cl_command_queue instead, cl_event *event,
              const Enqueue &native);

// The command buffer is gone.
void forget_recorded(RecordedLaunches launches);

}  // namespace layer
#endif
