// SPDX-License-Identifier: Apache-2.0
// The plan of a launch: which kernel runs, with which memory for its counters, or why it is not
// instrumented.
#ifndef XPUPROF_OPENCL_PLAN_HPP
#define XPUPROF_OPENCL_PLAN_HPP

#include "counters/counters.hpp"
#include "counters/warps.hpp"
#include "memory/stack_memory.hpp"
#include "programs/kernels.hpp"

namespace layer {

// Counter memory per context and device: above this a launch is left uninstrumented.
constexpr size_t hard_limit = size_t{4} << 30;

struct Range {
  cl_uint dimensions;
  const size_t *offset, *global, *local;
};

// An empty launch: the driver's result goes to the application.
bool is_empty(const Range &range);

struct Plan {
  std::shared_ptr<Variant> variant;
  cl_kernel kernel = nullptr;
  const InstrumentedKernel *info = nullptr;  // the variant's, which may lose it to a later launch
  std::string refusal;                       // why uninstrumented, where the variant has no reason
  Geometry geometry{};
  bool local_known = false;
  Sizes local{1, 1, 1};                       // where known
  LaunchShape shape;                          // of a launch whose local size the runtime chooses
  bool derived = false;                       // counts follow from the geometry alone or are known
  std::shared_ptr<const WarpClasses> counts;  // where known before the launch
  size_t words = 0;                           // of the header and the counters

  // Why uninstrumented; empty: instrumented.
  const std::string &reason() const { return refusal.empty() ? variant->reason : refusal; }
  // The launch has no counts; `refused`: the device's error for the instrumented kernel, or for the
  // local size that it chose before.
  void leave_out(const std::string &why);
  void refused(cl_int error);
};

// A launch's own memory.
struct Room {
  std::shared_ptr<CounterArea> area;
  std::shared_ptr<Recording> recording;  // of its accesses
};

// The plan of a launch that is not instrumented.
Plan bare_plan(Kernel *kernel, const char *reason);
// The plan of an instrumented launch, with memory for its counters unless its counts are analytic.
Plan make_plan(const Queue &queue, Kernel *kernel, const Range &range, Room *room);

}  // namespace layer
#endif
