// Launches: run, recorded in the order of their enqueueing, and harvested when they have finished.
#ifndef XPUPROF_OPENCL_LAUNCHES_HPP
#define XPUPROF_OPENCL_LAUNCHES_HPP

#include "objects.hpp"

namespace layer {

// Takes in whatever has finished; never waits.
void poll_all();

// The application let go of the context: our memory in it goes too, as soon as it is idle.
void close_context(Context &context);

// The end of the process, or of the layer: waits a little for launches that are still running.
void finish();

}  // namespace layer
#endif
