// SPDX-License-Identifier: Apache-2.0
/* libxpuprof_nvbit.so: exact per-warp block vectors of SASS kernels, by NVBit.
 *
 * Each launch gets its own counters (buffers.h), which are read when it has completed (reader.h).
 * No callback waits for a kernel. A lock is held between the two callbacks of a launch call: NVBit
 * keeps the launch's argument per function, and two threads may launch the same one. */
#include "nvbit_tool.h"
/* nvbit_tool.h comes first and once: it contains the tool's hooks */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "buffers.h"
#include "calls.h"
#include "functions.h"
#include "kit.h"
#include "reader.h"
#include "xpuprof/boundary.h"
#include "xpuprof/kernel_spec.hpp"

#define XPU_ENV_COUNTER_MEMORY "XPUPROF_COUNTER_MEMORY" /* MiB of device memory for counters */
#define XPU_ENV_COUNT_UNIT "XPUPROF_COUNT_UNIT"         /* warp (default) | lane */
#define XPU_ENV_NVDISASM "XPUPROF_NVDISASM"             /* path of nvdisasm, which NVBit runs */

namespace {

/* What graphs need of a kernel's counters. */
struct Nodes {
  CUcontext context;
  uint64_t warps; /* of the largest */
  size_t made, launched, most_launched;
};

/* Recursive: NVBit may call us for the context in the middle of its first launch. Where NVBit's own
 * lock is held as well (nvbit_at_graph_node_launch), this one was taken first. */
std::recursive_mutex lock;
Functions functions;
CounterMemory *memory;
Reader *reader;
KernelFilter filter;
std::unordered_map<CUstream, uint32_t> queues;
std::unordered_map<CUcontext, uint32_t> devices;
std::unordered_map<CUfunction, Nodes> nodes;
std::vector<Flight> graph_flights; /* of the current graph launch */
Flight current;                    /* the current launch */
bool lanes, finished;

thread_local bool ours; /* our own driver calls */
thread_local int depth; /* of bracketed calls */

/* Our own driver calls in a callback: not counted as the program's, and harmless to a capture in
 * another thread. */
class Ours {
 public:
  Ours() : before_(ours) {
    ours = true;
    cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Ours() {
    cuThreadExchangeStreamCaptureMode(&mode_);
    ours = before_;
  }

 private:
  bool before_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/* ---- launches ------------------------------------------------------------------------------- */

uint32_t dimensions(const Shape &shape) {
  for (int d = 2; d > 0; d--)
    if (shape.grid[d] > 1 || shape.block[d] > 1) return static_cast<uint32_t>(d) + 1;
  return 1;
}

xpu_launch launch_of(const Kernel &kernel, CUcontext context, const Call &call) {
  xpu_launch launch = {};
  launch.kernel = kernel.id;
  launch.dimensions = dimensions(call.shape);
  for (int d = 0; d < 3; d++) {
    launch.local[d] = call.shape.block[d];
    launch.global[d] = static_cast<uint64_t>(call.shape.grid[d]) * call.shape.block[d];
  }
  launch.queue = queues.emplace(call.stream, static_cast<uint32_t>(queues.size())).first->second;
  auto device = devices.find(context);
  launch.device = device == devices.end() ? 0 : device->second;
  return launch;
}

/* Why the kernel's next launch is not to be counted; empty when it is. Counts the call. */
std::string why_not(const Kernel &kernel, const Shape &shape) {
  bool chosen = filter.chooses_next(kernel.name);
  filter.launched(kernel.name);
  if (!xpu_window_is_open()) return XPU_REASON_OUTSIDE;
  if (!kernel.reason.empty()) return kernel.reason;
  if (shape.block[0] == 0) return "an old launch call that does not give the block size";
  return chosen ? "" : XPU_REASON_LEFT_OUT;
}

Flight flight_of(CUcontext context, const std::shared_ptr<Kernel> &kernel, const Call &call) {
  Flight flight = {};
  flight.context = context;
  flight.kernel = kernel;
  flight.warps = warps_of(call.shape);
  flight.reason = why_not(*kernel, call.shape);
  flight.shape = launch_of(*kernel, context, call);
  return flight;
}

/* NVBit replaces the function's code in place, so nothing of it may be running. It switches related
 * functions with it, which other kernels may be running. So a kernel with related functions, or in
 * a graph, stays instrumented: its launches that are not counted get no counters, and the injected
 * functions return at once. */
void switch_to(Kernel *kernel, bool counted) {
  bool on = counted || kernel->in_graph || kernel->related;
  if (kernel->launched && kernel->enabled != on) cuCtxSynchronize();
  kernel->enabled = on;
  kernel->launched = true;
}

Flight prepare(CUcontext context, const Call &call) {
  const std::shared_ptr<Kernel> &kernel = functions.kernel(context, call.function);
  Flight flight = flight_of(context, kernel, call);
  bool wanted = flight.reason.empty();
  if (wanted)
    flight.buffer = memory->take(context, *kernel, flight.warps, call.stream, &flight.reason);
  switch_to(kernel.get(), wanted);
  /* The value first: NVBit hands it to the driver when the function is enabled. */
  nvbit_set_at_launch(context, call.function, flight.buffer ? flight.buffer->memory : 0,
                      call.stream, 0);
  nvbit_enable_instrumented(context, call.function, kernel->enabled);
  return flight;
}

void went(Flight *flight, CUstream stream) {
  flight->shape.reason = flight->buffer ? nullptr : flight->reason.c_str();
  flight->launch = xpu_kernel_run(&flight->shape);
  if (flight->buffer) reader->add(std::move(*flight), stream);
}

/* Launches that the driver rejected are not counted. */
void did_not_go(Flight *flight) {
  filter.take_back(flight->kernel->name);
  if (flight->buffer) memory->give_back(flight->context, *flight->kernel, flight->buffer);
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* A kernel in a graph is instrumented before the graph is instantiated, and has counters before the
 * graph is launched: nvbit_at_graph_node_launch must not call the driver. */
void node_made(CUcontext context, const Call &node) {
  Kernel *kernel = functions.kernel(context, node.function).get();
  if (!kernel->reason.empty()) return;
  kernel->in_graph = true;
  switch_to(kernel, true);
  nvbit_enable_instrumented(context, node.function, true);
  Nodes &known = nodes[node.function];
  known.context = context;
  known.warps = std::max(known.warps, warps_of(node.shape));
  known.made++;
}

void graph_launch_begins(CUstream stream) {
  lock.lock();
  Ours guard;
  graph_flights.clear();
  for (auto &[function, needs] : nodes) {
    size_t n = std::max(needs.made, needs.most_launched);
    memory->reserve(needs.context, *functions.kernel(needs.context, function), needs.warps, stream,
                    n);
    needs.launched = 0;
  }
}

/* No driver calls: NVBit holds a lock that other threads' driver calls may wait for. */
void node_launched(CUcontext context, const Call &call, uint64_t handle) {
  const std::shared_ptr<Kernel> &kernel = functions.kernel(context, call.function);
  Flight flight = flight_of(context, kernel, call);
  auto known = nodes.find(call.function);
  if (flight.reason.empty()) {
    flight.buffer = memory->take_idle(context, *kernel, flight.warps);
    if (!flight.buffer)
      flight.reason = known == nodes.end() ? "a graph's node that was not seen when it was made"
                                           : "no counters were left for a graph's node";
  }
  if (known != nodes.end()) known->second.launched++;
  nvbit_set_at_launch(context, call.function, flight.buffer ? flight.buffer->memory : 0,
                      call.stream, handle);
  graph_flights.push_back(flight);
}

void graph_launch_returns(CUstream stream, uint64_t tsc_run, bool failed) {
  {
    Ours guard;
    for (Flight &flight : graph_flights) {
      flight.shape.tsc_run = tsc_run;
      if (failed)
        did_not_go(&flight);
      else
        went(&flight, stream);
    }
    graph_flights.clear();
    for (auto &[function, needs] : nodes) {
      needs.most_launched = std::max(needs.most_launched, needs.launched);
      if (needs.launched) needs.made = 0; /* what was made has been seen in a launch */
    }
  }
  lock.unlock();
}

/* ---- driver calls --------------------------------------------------------------------------- */

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void launch_begins(CUcontext context, Call call) {
  lock.lock();
  Ours guard;
  current = {};
  call.function = resolved(call.function);
  if (is_captured(call.stream)) {
    node_made(context, call);
    return;
  }
  current = prepare(context, call);
  current.shape.tsc_run = xpu_tsc();
}

void launch_returns(const Call &call, bool failed) {
  {
    Ours guard;
    if (current.context && failed) did_not_go(&current);
    if (current.context && !failed) went(&current, call.stream);
  }
  lock.unlock();
}

/* One call, several devices: NVBit keeps one argument per function, so these run uninstrumented. */
template <typename Action>
void for_each_device(const cuLaunchCooperativeKernelMultiDevice_params *p, Action action) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  for (unsigned i = 0; i < p->numDevices; i++) {
    const CUDA_LAUNCH_PARAMS &part = p->launchParamsList[i];
    CUcontext context = nullptr, popped;
    cuStreamGetCtx(part.hStream, &context);
    cuCtxPushCurrent_v2(context);
    action(context, Call{part.function,
                         part.hStream,
                         {{part.gridDimX, part.gridDimY, part.gridDimZ},
                          {part.blockDimX, part.blockDimY, part.blockDimZ}}});
    cuCtxPopCurrent_v2(&popped);
  }
}

void several_devices_begin(CUcontext context, const Call &part) {
  Kernel *kernel = functions.kernel(context, part.function).get();
  switch_to(kernel, false);
  nvbit_set_at_launch(context, part.function, 0, part.stream, 0);
  nvbit_enable_instrumented(context, part.function, kernel->enabled);
}

void several_devices_return(CUcontext context, const Call &part) {
  Kernel *kernel = functions.kernel(context, part.function).get();
  xpu_launch launch = launch_of(*kernel, context, part);
  launch.reason = "one call launches on several devices";
  filter.launched(kernel->name);
  xpu_kernel_run(&launch);
}

/* The module's handles may name other functions later. */
void module_unloads(CUmodule module) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  for (auto it = nodes.begin(); it != nodes.end();)
    it = functions.kernel(it->second.context, it->first)->module == module ? nodes.erase(it)
                                                                           : std::next(it);
  functions.forget(module);
}

void call_begins(CUcontext context, nvbit_api_cuda_t cbid, const void *params, uint64_t *tsc) {
  Call call;
  if (is_launch(cbid, params, &call)) {
    launch_begins(context, call);
  } else if (is_graph_launch(cbid)) {
    graph_launch_begins(graph_stream(cbid, params));
    *tsc = xpu_tsc();
  } else if (cbid == API_CUDA_cuLaunchCooperativeKernelMultiDevice) {
    for_each_device(static_cast<const cuLaunchCooperativeKernelMultiDevice_params *>(params),
                    several_devices_begin);
  } else if (sets_node(cbid, params, &call)) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    Ours guard;
    call.function = resolved(call.function);
    node_made(context, call);
  } else if (cbid == API_CUDA_cuModuleUnload) {
    module_unloads(static_cast<const cuModuleUnload_params *>(params)->hmod);
  } else if (cbid == API_CUDA_cuLibraryUnload) {
    CUmodule module = nullptr;
    if (cuLibraryGetModule(&module, static_cast<const cuLibraryUnload_params *>(params)->library) ==
        CUDA_SUCCESS)
      module_unloads(module);
  }
}

/* cudaProfilerStart and cudaProfilerStop switch a window's marker; repeated ones change nothing. */
void turn_profiler(nvbit_api_cuda_t cbid) {
  static std::atomic<bool> started{false};
  if (cbid == API_CUDA_cuProfilerStart && !started.exchange(true))
    xpu_window_begin(XPU_MARKER_CUDA_PROFILER);
  if (cbid == API_CUDA_cuProfilerStop && started.exchange(false))
    xpu_window_end(XPU_MARKER_CUDA_PROFILER);
}

void call_returns(nvbit_api_cuda_t cbid, const void *params, bool failed, uint64_t tsc) {
  Call call;
  if (is_launch(cbid, params, &call))
    launch_returns(call, failed);
  else if (is_graph_launch(cbid))
    graph_launch_returns(graph_stream(cbid, params), tsc, failed);
  else if (cbid == API_CUDA_cuLaunchCooperativeKernelMultiDevice && !failed)
    for_each_device(static_cast<const cuLaunchCooperativeKernelMultiDevice_params *>(params),
                    several_devices_return);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* A forked child has neither the reader's thread nor the driver's. */
pid_t process;

void finish() {
  if (getpid() != process) return;
  std::lock_guard<std::recursive_mutex> hold(lock);
  if (finished) return;
  finished = true;
  reader->wait();
  xpu_meta("counts_without_place", std::to_string(reader->strays()).c_str());
  xpu_meta("programs_that_launch", std::to_string(functions.launching()).c_str());
  xpu_meta("launches_not_read", std::to_string(reader->lost()).c_str());
  xpu_gpu_fini();
}

/* In bytes; 0: a share of the free memory. */
uint64_t memory_limit() {
  const char *text = getenv(XPU_ENV_COUNTER_MEMORY);
  return text ? strtoull(text, nullptr, 10) << 20 : 0;
}

}  // namespace

/* ---- what NVBit calls ----------------------------------------------------------------------- */

void nvbit_at_init() {
  const char *unit = getenv(XPU_ENV_COUNT_UNIT), *kernels = getenv(XPU_ENV_KERNELS),
             *nvdisasm = getenv(XPU_ENV_NVDISASM);
  std::string why;
  process = getpid();
  lanes = unit && strcmp(unit, "lane") == 0;
  /* Never freed: callbacks come until the end. */
  memory = new CounterMemory(memory_limit(), lanes);
  reader = new Reader(memory, lanes);
  if (nvdisasm && *nvdisasm) nvbit_set_nvdisasm(nvdisasm);
  xpu_gpu_init("nvbit", NVBIT_VERSION, lanes ? "lane" : "warp", 32);
  if (kernels && !filter.parse(kernels, &why)) xpu_meta("gpu_engine_failed", why.c_str());
  xpu_register_harvest(finish);
  atexit(finish);
}

void nvbit_tool_init(CUcontext context) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  std::string why;
  CUdevice device = 0;
  memory->start(context, &why); /* when it fails, the first launch tries again and says why */
  if (cuCtxGetDevice(&device) == CUDA_SUCCESS) devices[context] = static_cast<uint32_t>(device);
}

void nvbit_at_ctx_init(CUcontext) {}

void nvbit_at_ctx_term(CUcontext context) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  reader->wait();
  reader->forget(context);
  memory->end(context);
}

void nvbit_at_term() { finish(); }

void nvbit_at_graph_node_launch(CUcontext context, CUfunction function, CUstream stream,
                                uint64_t handle) {
  func_config_t config = {};
  nvbit_get_func_config(context, function, &config);
  /* The lock is held since cuGraphLaunch began. */
  node_launched(context,
                {function,
                 stream,
                 {{config.gridDimX, config.gridDimY, config.gridDimZ},
                  {config.blockDimX, config.blockDimY, config.blockDimZ}}},
                handle);
}

void nvbit_at_cuda_event(CUcontext context, int is_exit, nvbit_api_cuda_t cbid, const char *,
                         void *params, CUresult *status) {
  static thread_local uint64_t tsc;
  if (ours || finished) return;
  if (!is_exit) {
    depth++;
    xpu_api_enter();
    call_begins(context, cbid, params, &tsc);
  } else {
    call_returns(cbid, params, *status != CUDA_SUCCESS, tsc);
    if (depth > 0) { /* the tool may have been loaded in the middle of a call */
      depth--;
      xpu_api_leave();
    }
    turn_profiler(cbid);
    if (depth == 0) xpu_window_settle();
  }
}
