// SPDX-License-Identifier: Apache-2.0
// Launches are enqueued, and traced in the order of enqueueing.
#ifndef XPUPROF_OPENCL_LAUNCHES_HPP
#define XPUPROF_OPENCL_LAUNCHES_HPP

#include "launches/harvest.hpp"

namespace layer {

// Progress of our part of a launching call.
struct Progress {
  bool taken = false;        // the driver has accepted the call
  cl_event event = nullptr;  // then our reference, until something else keeps it
  bool counted = false;
};

// Makes a launching call of the application in any case. `ours` does our part and makes the call.
// If it fails (out of memory) before the driver accepted the call, `plainly` makes it as the
// application did, and `count` counts the remaining launches as uninstrumented. Returns the
// driver's result.
template <class Ours, class Plainly, class Count>
cl_int in_any_case(Ours &&ours, Plainly &&plainly, Count &&count) {
  Progress progress;
  cl_int error = CL_SUCCESS;
  if (quietly([&] { error = ours(&progress); })) return error;
  error = progress.taken ? CL_SUCCESS : plainly(&progress.event);
  if (error == CL_SUCCESS && !progress.counted && !quietly([&] { count(&progress); }))
    xpu_meta("gpu_engine_failed", "out of memory: a launch could not be counted");
  if (progress.event) next.clReleaseEvent(progress.event);
  return error;
}

constexpr const char *own_failure = "instrumenting the launch failed (out of memory)";

// Callers hold `order`.
void register_exit();
// Why the next launch, of this kernel, is deliberately left without vectors; NULL if it is not.
const char *left_out(const Kernel &kernel);
// Counts an enqueued launch, to be harvested when it has finished. Returns its number.
uint64_t follow(const std::shared_ptr<Queue> &queue, const Kernel &kernel, Planned made,
                const Range &range, uint64_t tsc, Progress *progress);

// At the end of the process or layer: waits briefly for launches still running.
void finish();

// Leaves no lock held in the child that another thread held at the fork, but for those of single
// programs and kernels.
void register_forks();

}  // namespace layer
#endif
