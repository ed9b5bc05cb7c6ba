// SPDX-License-Identifier: Apache-2.0
#include "launching.h"

#include <map>
#include <string>

#include "graphs.h"
#include "recorder.h"

namespace ptx {
namespace {

uint32_t dimensions(const Shape &shape) {
  for (int d = 2; d > 0; d--)
    if (shape.grid[d] > 1 || shape.block[d] > 1) return static_cast<uint32_t>(d) + 1;
  return 1;
}

/* Counts the call, which comes after `before` others that are not recorded yet. */
std::string why_not(const Kernel &kernel, uint64_t before) {
  bool chosen = recorder->filter.chooses_next(kernel.name);
  recorder->filter.launched(kernel.name);
  if (!xpu_window_is_open_after(before)) return XPU_REASON_OUTSIDE;
  if (!kernel.reason.empty()) return kernel.reason;
  return chosen ? "" : XPU_REASON_LEFT_OUT;
}

Launch launch_of(CUcontext context, CUfunction function, const Shape &shape, CUstream stream,
                 uint64_t before = 0) {
  Launch made = {};
  made.head = NO_HEAD;
  made.kernel = recorder->programs.kernel(context, function);
  made.threads = shape.block[0] * shape.block[1] * shape.block[2];
  made.blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  made.reason = why_not(made.kernel, before);
  xpu_launch &launch = made.shape;
  CUdevice device = 0;
  driver.cuCtxGetDevice(&device);
  launch.kernel = made.kernel.id;
  launch.dimensions = dimensions(shape);
  for (int d = 0; d < 3; d++) {
    launch.local[d] = shape.block[d];
    launch.global[d] = uint64_t{shape.grid[d]} * shape.block[d];
  }
  launch.queue = recorder->queues.emplace(stream, static_cast<uint32_t>(recorder->queues.size()))
                     .first->second;
  launch.device = static_cast<uint32_t>(device);
  return made;
}

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The frame of a launch call; `launch` takes the context. */
template <typename Launch>
CUresult launching(CUstream stream, Call real, Launch launch) {
  if (!is_recording() || is_captured(stream)) return real();
  CUresult result;
  {
    std::lock_guard<std::recursive_mutex> hold(recorder_lock);
    Inside inside;
    CUcontext context = nullptr;
    driver.cuCtxGetCurrent(&context);
    result = launch(context);
  }
  xpu_window_settle();
  return result;
}

/* A stream of another context than the current one: that context's copy of the kernel may run. */
void refuse_elsewhere(Flight *flight) {
  CUcontext its = flight->context;
  driver.cuStreamGetCtx(flight->stream.handle, &its);
  if (its == flight->context) return;
  for (Launch &launch : flight->launches) {
    if (launch.is_counted()) launch.reason = "its stream is another context's";
    launch.kernel.slot = 0;
    launch.kernel.other_slots.clear();
  }
}

/* A rejected launch is not counted. */
CUresult fly(Flight *flight, Call real) {
  finish_before_the_driver();
  refuse_elsewhere(flight);
  recorder->counters.prepare(flight);
  uint64_t tsc_run = xpu_tsc();
  CUresult result = real();
  if (result != CUDA_SUCCESS) {
    for (const Launch &launch : flight->launches) recorder->filter.take_back(launch.kernel.name);
    recorder->counters.did_not_go(flight);
    return result;
  }
  for (Launch &launch : flight->launches) {
    launch.shape.tsc_run = tsc_run;
    launch.shape.reason = launch.is_counted() ? nullptr : launch.reason.c_str();
    launch.number = xpu_kernel_run(&launch.shape);
  }
  recorder->counters.went(flight);
  return result;
}

Flight flight_on(CUcontext context, CUstream stream) {
  Flight flight = {};
  flight.context = context;
  flight.stream = stream_of(stream);
  return flight;
}

/* Kernels of a graph that read one slot are told apart by their order: without one, none of them is
 * counted. A kernel may not read a slot that another needs to be empty, nor write to another
 * device.
 */
void refuse_unclear(CUgraphExec exec, const GraphLaunches &graph, Flight *flight) {
  std::map<CUdeviceptr, std::string> unclear;
  std::map<CUdeviceptr, const GraphLaunch *> last;
  for (size_t i = 0; i < flight->launches.size(); i++) {
    const Kernel &kernel = flight->launches[i].kernel;
    const GraphLaunch *&before = last[kernel.slot];
    if (before && !is_before(exec, *before, graph.kernels[i]))
      unclear[kernel.slot] = "its graph may run it twice at the same time";
    before = &graph.kernels[i];
    for (CUdeviceptr other : kernel.other_slots)
      unclear[other] = "its graph also runs a kernel that was linked to it";
  }
  for (Launch &launch : flight->launches) {
    CUdeviceptr &slot = launch.kernel.slot;
    auto why = unclear.find(slot);
    std::string reason = launch.reason;
    if (!slot) continue;
    if (graph.device_decides) reason = "the device decides what its graph runs";
    if (why != unclear.end()) reason = why->second;
    if (static_cast<uint32_t>(launch.kernel.device) != launch.shape.device) {
      reason = "its graph was launched on another device";
      slot = 0;
    }
    if (launch.is_counted()) launch.reason = reason;
  }
}

Flight flight_of(CUcontext context, CUgraphExec exec, CUstream stream, const GraphLaunches &graph) {
  Flight flight = flight_on(context, stream);
  for (const GraphLaunch &node : graph.kernels) {
    Shape shape = {{node.grid[0], node.grid[1], node.grid[2]},
                   {node.block[0], node.block[1], node.block[2]}};
    flight.launches.push_back(
        launch_of(context, node.function, shape, stream, flight.launches.size()));
  }
  refuse_unclear(exec, graph, &flight);
  return flight;
}

}  // namespace

CUresult launch(CUfunction function, const Shape &shape, CUstream stream, Call real) {
  return launching(stream, real, [&](CUcontext context) {
    Flight flight = flight_on(context, stream);
    flight.launches.push_back(launch_of(context, function, shape, stream));
    return fly(&flight, real);
  });
}

CUresult launch_graph(CUgraphExec exec, CUstream stream, Call real) {
  return launching(stream, real, [&](CUcontext context) {
    GraphLaunches graph = graph_launches(exec);
    graph.device_decides |= recorder->device_launches_graphs;
    Flight flight = flight_of(context, exec, stream, graph);
    const Stream its = flight.stream;
    if (graph.device_decides) recorder->counters.stop_counting(context, its);
    CUresult result = fly(&flight, real);
    if (graph.device_decides) recorder->counters.uncounted_went(context, its);
    return result;
  });
}

}  // namespace ptx
