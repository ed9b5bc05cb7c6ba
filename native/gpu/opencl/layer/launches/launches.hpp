// SPDX-License-Identifier: Apache-2.0
// Launches: enqueued, and traced in the order of their enqueueing.
#ifndef XPUPROF_OPENCL_LAUNCHES_HPP
#define XPUPROF_OPENCL_LAUNCHES_HPP

#include "launches/harvest.hpp"

namespace layer {

// How far our part of a call that launches came.
struct Progress {
  bool taken = false;        // the driver has taken the call
  cl_event event = nullptr;  // then: a reference of ours, until something else keeps it
  bool counted = false;
};

// Makes a call of the application's that launches, in any case. `ours` does our part and makes the
// call. Where it fails (out of memory) before the driver took the call, `plainly` makes it as the
// application did; what was not counted yet `count` then counts as uninstrumented. The answer is
// the driver's.
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

// Want `order` held.
void register_exit();
// Why the next launch, one of this kernel, has no vectors by choice; NULL: it is to have them.
const char *left_out(const Kernel &kernel);
// The launch is made: it is counted, and taken in when it has finished. Returns its number.
uint64_t follow(Pending made, const Kernel &kernel, const Range &range, uint64_t tsc,
                Progress *progress);

// The end of the process, or of the layer: waits a little for launches that are still running.
void finish();

// No lock of ours that another thread holds when the process forks is left held in the child.
void register_forks();

}  // namespace layer
#endif
