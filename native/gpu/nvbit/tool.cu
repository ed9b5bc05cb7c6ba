// SPDX-License-Identifier: Apache-2.0
/* libxpuprof_nvbit.so: exact per-warp block vectors of SASS kernels, by NVBit.
 *
 * Each launch gets its own counters (buffers.h); when it completes, its vectors are read on our own
 * stream, which waits for that launch alone. Nothing waits for the whole device. A lock is held
 * between the two callbacks of a launch call: NVBit keeps the launch's argument per function, and
 * two threads may launch the same one. */
#include "nvbit_tool.h"
/* nvbit_tool.h comes first and once: it contains the tool's hooks */
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "buffers.h"
#include "functions.h"
#include "kit.h"
#include "xpuprof/boundary.h"
#include "xpuprof/kernel_spec.hpp"

#define XPU_ENV_COUNTER_MEMORY "XPUPROF_COUNTER_MEMORY" /* MiB of device memory for counters */
#define XPU_ENV_COUNT_UNIT "XPUPROF_COUNT_UNIT"         /* warp (default) | lane */
#define XPU_ENV_NVDISASM "XPUPROF_NVDISASM"             /* path of nvdisasm, which NVBit runs */

namespace {

enum { MOST_IN_FLIGHT = 256, DEFAULT_MEMORY_MIB = 2048 };

/* One launch between its call and the reading of its counters. */
struct Flight {
  CUcontext context;
  Kernel kernel; /* a copy: its module may be unloaded while it runs */
  CounterBuffer *buffer;
  uint64_t warps, launch;
  CUevent done;
  xpu_launch shape;
  std::string reason; /* if not empty, runs uninstrumented */
};

struct Shape {
  uint32_t grid[3], block[3];
};

/* Recursive: NVBit may call us for the context in the middle of its first launch. */
std::recursive_mutex lock;
Functions functions;
CounterMemory *memory;
KernelFilter filter;
std::unordered_map<CUstream, uint32_t> queues;
std::deque<Flight> in_flight;
std::vector<Flight> graph_nodes; /* of the current graph launch */
Flight current;                  /* the current launch */
uint64_t strays, lost_readings;
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

/* ---- reading counters ----------------------------------------------------------------------- */

void read_one() {
  Flight flight = in_flight.front();
  in_flight.pop_front();
  Reading reading = {};
  cuCtxPushCurrent_v2(flight.context);
  bool whole = memory->read(flight.context, flight.kernel, flight.buffer, flight.warps, flight.done,
                            &reading);
  cuEventDestroy_v2(flight.done);
  CUcontext popped;
  cuCtxPopCurrent_v2(&popped);
  strays += reading.strays;
  if (!whole || reading.strays) { /* no vectors rather than wrong ones */
    lost_readings++;
    return;
  }
  const WarpClasses &classes = reading.classes;
  xpu_grid grid = {};
  grid.kernel = flight.kernel.id;
  grid.n_vectors = static_cast<uint32_t>(classes.first_row.size());
  grid.counts = reading.vectors.data();
  grid.n_runs = classes.run_class.size();
  grid.run_vector = classes.run_class.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(flight.launch, &grid);
  if (!lanes) xpu_launch_lanes(flight.launch, reading.lane_instructions);
}

void read_finished() {
  while (!in_flight.empty() && cuEventQuery(in_flight.front().done) == CUDA_SUCCESS) read_one();
  while (in_flight.size() > MOST_IN_FLIGHT) read_one();
}

void read_all() {
  while (!in_flight.empty()) read_one();
}

/* ---- launches ------------------------------------------------------------------------------- */

uint32_t dimensions(const Shape &shape) {
  for (int d = 2; d > 0; d--)
    if (shape.grid[d] > 1 || shape.block[d] > 1) return static_cast<uint32_t>(d) + 1;
  return 1;
}

uint64_t warps_of(const Shape &shape) {
  uint64_t blocks = static_cast<uint64_t>(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  uint64_t threads = static_cast<uint64_t>(shape.block[0]) * shape.block[1] * shape.block[2];
  return blocks * ((threads + 31) / 32);
}

uint32_t queue_of(CUstream stream) {
  return queues.emplace(stream, static_cast<uint32_t>(queues.size())).first->second;
}

/* Prepares the counters of one launch; `handle` is NVBit's for a graph's node, else 0. */
Flight prepare(CUcontext context, CUfunction function, const Shape &shape, CUstream stream,
               uint64_t handle) {
  Flight flight = {};
  Kernel *kernel = functions.kernel(context, function);
  flight.context = context;
  flight.kernel = *kernel;
  flight.warps = warps_of(shape);
  flight.reason = kernel->reason;
  bool chosen = filter.chooses_next(kernel->name);
  filter.launched(kernel->name);
  if (flight.reason.empty() && shape.block[0] == 0)
    flight.reason = "an old launch call that does not give the block size";
  if (!xpu_window_is_open())
    flight.reason = XPU_REASON_OUTSIDE;
  else if (flight.reason.empty() && !chosen)
    flight.reason = XPU_REASON_LEFT_OUT;
  if (flight.reason.empty())
    flight.buffer = memory->take(context, *kernel, flight.warps, &flight.reason);
  nvbit_enable_instrumented(context, function, flight.buffer != nullptr);
  if (flight.buffer) nvbit_set_at_launch(context, function, flight.buffer->memory, stream, handle);
  xpu_launch &launch = flight.shape;
  CUdevice device = 0;
  cuCtxGetDevice(&device);
  launch.kernel = kernel->id;
  launch.dimensions = dimensions(shape);
  for (int d = 0; d < 3; d++) {
    launch.local[d] = shape.block[d];
    launch.global[d] = static_cast<uint64_t>(shape.grid[d]) * shape.block[d];
  }
  launch.queue = queue_of(stream);
  launch.device = static_cast<uint32_t>(device);
  return flight;
}

void went(Flight *flight, CUstream stream) {
  flight->shape.reason = flight->buffer ? nullptr : flight->reason.c_str();
  flight->launch = xpu_kernel_run(&flight->shape);
  if (!flight->buffer) return;
  cuEventCreate(&flight->done, CU_EVENT_DISABLE_TIMING);
  cuEventRecord(flight->done, stream);
  in_flight.push_back(*flight);
}

/* Launches that the driver rejected are not counted. */
void did_not_go(Flight *flight) {
  filter.take_back(flight->kernel.name);
  if (flight->buffer) memory->give_back(flight->context, flight->kernel, flight->buffer);
}

/* ---- driver calls --------------------------------------------------------------------------- */

struct Call {
  CUfunction function;
  CUstream stream;
  Shape shape;
};

template <typename Params>
Call call_of(const Params *p) {
  return {p->f,
          p->hStream,
          {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}}};
}

template <typename Params>
Call old_call_of(const Params *p, CUstream stream) {
  uint32_t width = static_cast<uint32_t>(p->grid_width),
           height = static_cast<uint32_t>(p->grid_height);
  return {p->f, stream, {{width, height, 1}, {0, 0, 0}}};
}

bool is_launch(nvbit_api_cuda_t cbid, const void *params, Call *call) {
  switch (cbid) {
    case API_CUDA_cuLaunchKernel:
    case API_CUDA_cuLaunchKernel_ptsz:
      *call = call_of(static_cast<const cuLaunchKernel_params *>(params));
      break;
    case API_CUDA_cuLaunchCooperativeKernel:
    case API_CUDA_cuLaunchCooperativeKernel_ptsz:
      *call = call_of(static_cast<const cuLaunchCooperativeKernel_params *>(params));
      break;
    case API_CUDA_cuLaunchKernelEx:
    case API_CUDA_cuLaunchKernelEx_ptsz: {
      auto p = static_cast<const cuLaunchKernelEx_params *>(params);
      const CUlaunchConfig *c = p->config;
      *call = {
          p->f,
          c->hStream,
          {{c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}}};
      break;
    }
    case API_CUDA_cuLaunch:
      *call = {static_cast<const cuLaunch_params *>(params)->f, nullptr, {{1, 1, 1}, {0, 0, 0}}};
      break;
    case API_CUDA_cuLaunchGrid:
      *call = old_call_of(static_cast<const cuLaunchGrid_params *>(params), nullptr);
      break;
    case API_CUDA_cuLaunchGridAsync: {
      auto p = static_cast<const cuLaunchGridAsync_params *>(params);
      *call = old_call_of(p, p->hStream);
      break;
    }
    default:
      return false;
  }
  bool per_thread = cbid == API_CUDA_cuLaunchKernel_ptsz ||
                    cbid == API_CUDA_cuLaunchCooperativeKernel_ptsz ||
                    cbid == API_CUDA_cuLaunchKernelEx_ptsz;
  if (!call->stream && per_thread) call->stream = CU_STREAM_PER_THREAD;
  return true;
}

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* A captured call launches nothing, but its kernel must be instrumented before the graph is
 * instantiated. */
void launch_begins(CUcontext context, const Call &call) {
  lock.lock();
  Ours guard;
  current = {};
  if (is_captured(call.stream)) {
    functions.kernel(context, call.function);
    nvbit_enable_instrumented(context, call.function, true);
    return;
  }
  read_finished();
  current = prepare(context, call.function, call.shape, call.stream, 0);
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
void several_devices_begin(const cuLaunchCooperativeKernelMultiDevice_params *p) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  for (unsigned i = 0; i < p->numDevices; i++) {
    CUcontext context = nullptr;
    cuStreamGetCtx(p->launchParamsList[i].hStream, &context);
    nvbit_enable_instrumented(context, p->launchParamsList[i].function, false);
  }
}

void several_devices(const cuLaunchCooperativeKernelMultiDevice_params *p) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  for (unsigned i = 0; i < p->numDevices; i++) {
    const CUDA_LAUNCH_PARAMS &part = p->launchParamsList[i];
    CUcontext context = nullptr;
    cuStreamGetCtx(part.hStream, &context);
    cuCtxPushCurrent_v2(context);
    Kernel *kernel = functions.kernel(context, part.function);
    xpu_launch launch = {};
    uint32_t grid[] = {part.gridDimX, part.gridDimY, part.gridDimZ};
    uint32_t block[] = {part.blockDimX, part.blockDimY, part.blockDimZ};
    CUdevice device = 0;
    cuCtxGetDevice(&device);
    launch.kernel = kernel->id;
    launch.dimensions = 3;
    for (int d = 0; d < 3; d++) {
      launch.local[d] = block[d];
      launch.global[d] = static_cast<uint64_t>(grid[d]) * block[d];
    }
    launch.queue = queue_of(part.hStream);
    launch.device = static_cast<uint32_t>(device);
    launch.reason = "one call launches on several devices";
    filter.launched(kernel->name);
    xpu_kernel_run(&launch);
    CUcontext popped;
    cuCtxPopCurrent_v2(&popped);
  }
}

void graph_launch_begins() {
  lock.lock();
  Ours guard;
  read_finished();
  graph_nodes.clear();
}

void graph_launch_returns(CUstream stream, uint64_t tsc_run, bool failed) {
  {
    Ours guard;
    for (Flight &node : graph_nodes) {
      node.shape.tsc_run = tsc_run;
      if (failed)
        did_not_go(&node);
      else
        went(&node, stream);
    }
    graph_nodes.clear();
  }
  lock.unlock();
}

/* Kernels added to a graph explicitly are instrumented before the graph is instantiated. */
void instrument_node(CUcontext context, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  if (!params || !params->func) return;
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  functions.kernel(context, params->func);
  nvbit_enable_instrumented(context, params->func, true);
}

bool adds_node(nvbit_api_cuda_t cbid, const void *params, const CUDA_KERNEL_NODE_PARAMS_v1 **node) {
  switch (cbid) { /* v2 and v3 of the parameters begin as v1 does */
    case API_CUDA_cuGraphAddKernelNode:
      *node = static_cast<const cuGraphAddKernelNode_params *>(params)->nodeParams;
      return true;
    case API_CUDA_cuGraphAddKernelNode_v2:
      *node = reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS_v1 *>(
          static_cast<const cuGraphAddKernelNode_v2_params *>(params)->nodeParams);
      return true;
    case API_CUDA_cuGraphExecKernelNodeSetParams:
      *node = static_cast<const cuGraphExecKernelNodeSetParams_params *>(params)->nodeParams;
      return true;
    case API_CUDA_cuGraphExecKernelNodeSetParams_v2:
      *node = reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS_v1 *>(
          static_cast<const cuGraphExecKernelNodeSetParams_v2_params *>(params)->nodeParams);
      return true;
    case API_CUDA_cuGraphAddNode: {
      auto p = static_cast<const cuGraphAddNode_params *>(params)->nodeParams;
      if (p->type != CU_GRAPH_NODE_TYPE_KERNEL) return false;
      *node = reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS_v1 *>(&p->kernel);
      return true;
    }
    default:
      return false;
  }
}

/* The program waits here anyway: a good moment to read. */
bool waits(nvbit_api_cuda_t cbid) {
  return cbid == API_CUDA_cuCtxSynchronize || cbid == API_CUDA_cuStreamSynchronize ||
         cbid == API_CUDA_cuStreamSynchronize_ptsz || cbid == API_CUDA_cuEventSynchronize ||
         cbid == API_CUDA_cuMemcpyDtoH_v2;
}

void call_begins(CUcontext context, nvbit_api_cuda_t cbid, const void *params, uint64_t *tsc) {
  Call call;
  const CUDA_KERNEL_NODE_PARAMS_v1 *node;
  if (is_launch(cbid, params, &call)) {
    launch_begins(context, call);
  } else if (cbid == API_CUDA_cuGraphLaunch || cbid == API_CUDA_cuGraphLaunch_ptsz) {
    graph_launch_begins();
    *tsc = xpu_tsc();
  } else if (cbid == API_CUDA_cuLaunchCooperativeKernelMultiDevice) {
    several_devices_begin(static_cast<const cuLaunchCooperativeKernelMultiDevice_params *>(params));
  } else if (adds_node(cbid, params, &node)) {
    instrument_node(context, node);
  } else if (cbid == API_CUDA_cuModuleUnload) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    Ours guard;
    read_all();
    functions.forget(static_cast<const cuModuleUnload_params *>(params)->hmod);
  } else if (cbid == API_CUDA_cuLibraryUnload) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    Ours guard;
    CUmodule module = nullptr;
    read_all();
    if (cuLibraryGetModule(&module, static_cast<const cuLibraryUnload_params *>(params)->library) ==
        CUDA_SUCCESS)
      functions.forget(module);
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
  if (is_launch(cbid, params, &call)) {
    launch_returns(call, failed);
  } else if (cbid == API_CUDA_cuGraphLaunch || cbid == API_CUDA_cuGraphLaunch_ptsz) {
    auto p = static_cast<const cuGraphLaunch_params *>(params);
    bool per_thread = cbid == API_CUDA_cuGraphLaunch_ptsz && !p->hStream;
    graph_launch_returns(per_thread ? CU_STREAM_PER_THREAD : p->hStream, tsc, failed);
  } else if (cbid == API_CUDA_cuLaunchCooperativeKernelMultiDevice && !failed) {
    several_devices(static_cast<const cuLaunchCooperativeKernelMultiDevice_params *>(params));
  } else if (waits(cbid)) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    Ours guard;
    read_finished();
  }
}

/* ---- life ----------------------------------------------------------------------------------- */

void finish() {
  std::lock_guard<std::recursive_mutex> hold(lock);
  if (finished) return;
  finished = true;
  Ours guard;
  read_all();
  xpu_meta("counts_without_place", std::to_string(strays).c_str());
  xpu_meta("programs_that_launch", std::to_string(functions.launching()).c_str());
  xpu_meta("launches_not_read", std::to_string(lost_readings).c_str());
  xpu_gpu_fini();
}

uint64_t memory_limit() {
  const char *text = getenv(XPU_ENV_COUNTER_MEMORY);
  uint64_t mib = text ? strtoull(text, nullptr, 10) : 0;
  return (mib ? mib : static_cast<uint64_t>(DEFAULT_MEMORY_MIB)) << 20;
}

}  // namespace

/* ---- what NVBit calls ----------------------------------------------------------------------- */

void nvbit_at_init() {
  const char *unit = getenv(XPU_ENV_COUNT_UNIT), *kernels = getenv(XPU_ENV_KERNELS),
             *nvdisasm = getenv(XPU_ENV_NVDISASM);
  std::string why;
  lanes = unit && strcmp(unit, "lane") == 0;
  memory = new CounterMemory(memory_limit(), lanes); /* never freed: callbacks come until the end */
  if (nvdisasm && *nvdisasm) nvbit_set_nvdisasm(nvdisasm);
  xpu_gpu_init("nvbit", NVBIT_VERSION, lanes ? "lane" : "warp", 32);
  xpu_meta("counter_memory_bytes", std::to_string(memory_limit()).c_str());
  if (kernels && !filter.parse(kernels, &why)) xpu_meta("gpu_engine_failed", why.c_str());
  xpu_register_harvest(finish);
  atexit(finish);
}

void nvbit_tool_init(CUcontext context) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  std::string why;
  memory->start(context, &why); /* when it fails, the first launch tries again and says why */
}

void nvbit_at_ctx_init(CUcontext) {}

void nvbit_at_ctx_term(CUcontext context) {
  std::lock_guard<std::recursive_mutex> hold(lock);
  Ours guard;
  read_all();
  memory->end(context);
}

void nvbit_at_term() { finish(); }

void nvbit_at_graph_node_launch(CUcontext context, CUfunction function, CUstream stream,
                                uint64_t handle) {
  func_config_t config = {};
  nvbit_get_func_config(context, function, &config);
  Shape shape = {{config.gridDimX, config.gridDimY, config.gridDimZ},
                 {config.blockDimX, config.blockDimY, config.blockDimZ}};
  Ours guard; /* the lock is held since cuGraphLaunch began */
  graph_nodes.push_back(prepare(context, function, shape, stream, handle));
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
