// SPDX-License-Identifier: Apache-2.0
/* libxpuprof_cuda.so: launch record and timer for NVIDIA devices, on CUPTI.
 *
 * The driver loads this library through CUDA_INJECTION64_PATH and calls InitializeInjection from
 * cuInit. Callbacks at the driver's launch calls number the launches (a captured call launches
 * nothing; a graph launch launches each of its kernel nodes); activity records deliver the device's
 * times later and in any order. `async` adds no waiting; `sync` waits for each launch at the end of
 * its call.
 *
 * Where the process is profiled (not timed), every API call is bracketed, so that a CPU engine
 * excludes the driver's own work. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "dispatch.h"
#include "node_params.h"
#include "recorder.h"
#include "xpuprof/boundary.h"
#include "xpuprof/trace_format.h"

namespace {

Recorder *recorder;
CUpti_SubscriberHandle subscriber;
bool bracket_calls; /* a CPU engine may be counting */
std::atomic<int> captures{0};

/* A thread's active runtime calls, by correlation id. They nest (CUDA 13's cudaLaunchKernel calls
 * __cudaLaunchKernel); completions may carry the id of either. */
struct RuntimeCalls {
  enum { MOST = 4 };
  uint32_t first, ids[MOST];
  int depth;
  void enter(uint32_t id) {
    if (depth == 0) first = id;
    if (depth < MOST) ids[depth] = id;
    depth++;
  }
  void leave() {
    if (depth > 0) depth--; /* we may have been loaded in the middle of a call */
    if (depth == 0) first = 0;
  }
  uint32_t last() const { return depth > 0 && depth <= MOST ? ids[depth - 1] : first; }
};

thread_local bool ours;            /* our own driver calls are not the program's */
thread_local RuntimeCalls runtime; /* the runtime API calls around us */
thread_local int depth;            /* of bracketed calls */
thread_local int launching;        /* launch calls whose begin was seen */

/* Nests: in the midst of a call of ours, CUPTI may tell us of a module or a node. During a capture,
 * by whatever thread, our calls must not count as the program's. */
class Ours {
 public:
  Ours() : before_(ours), relaxed_(captures.load(std::memory_order_relaxed) > 0) {
    ours = true;
    if (relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Ours() {
    if (relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
    ours = before_;
  }

 private:
  const bool before_, relaxed_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/* ---- launch calls --------------------------------------------------------------------------- */

enum Kind { NO_LAUNCH, KERNEL, KERNEL_EX, COOPERATIVE, DEVICES, GRAPH, OLD, OLD_GRID, OLD_STREAM };

struct LaunchCall {
  uint32_t cbid;
  Kind kind;
  bool per_thread_stream;
};

#define XPU_CBID(name) CUPTI_DRIVER_TRACE_CBID_##name
const LaunchCall LAUNCH_CALLS[] = {
    {XPU_CBID(cuLaunchKernel), KERNEL, false},
    {XPU_CBID(cuLaunchKernel_ptsz), KERNEL, true},
    {XPU_CBID(cuLaunchKernelEx), KERNEL_EX, false},
    {XPU_CBID(cuLaunchKernelEx_ptsz), KERNEL_EX, true},
    {XPU_CBID(cuLaunchCooperativeKernel), COOPERATIVE, false},
    {XPU_CBID(cuLaunchCooperativeKernel_ptsz), COOPERATIVE, true},
    {XPU_CBID(cuLaunchCooperativeKernelMultiDevice), DEVICES, false},
    {XPU_CBID(cuGraphLaunch), GRAPH, false},
    {XPU_CBID(cuGraphLaunch_ptsz), GRAPH, true},
    {XPU_CBID(cuLaunch), OLD, false},
    {XPU_CBID(cuLaunchGrid), OLD_GRID, false},
    {XPU_CBID(cuLaunchGridAsync), OLD_STREAM, false},
};

const LaunchCall *launch_call(CUpti_CallbackId cbid) {
  for (const LaunchCall &call : LAUNCH_CALLS)
    if (call.cbid == cbid) return &call;
  return nullptr;
}

template <typename Params> /* cuLaunchKernel and cuLaunchCooperativeKernel */
Shape shape_of(const Params *p) {
  return {p->f,
          {p->gridDimX, p->gridDimY, p->gridDimZ},
          {p->blockDimX, p->blockDimY, p->blockDimZ},
          p->sharedMemBytes};
}

template <typename Params>
Shape old_shape_of(const Params *p) {
  return {p->f,
          {static_cast<uint32_t>(p->grid_width), static_cast<uint32_t>(p->grid_height), 1},
          {0, 0, 0},
          0};
}

/* Fills the call's stream. `shape` stays untouched for graphs and several devices. */
void decode(Kind kind, const void *params, ApiCall *call, Shape *shape) {
  switch (kind) {
    case KERNEL: {
      auto p = static_cast<const cuLaunchKernel_params *>(params);
      call->stream = p->hStream;
      *shape = shape_of(p);
      return;
    }
    case COOPERATIVE: {
      auto p = static_cast<const cuLaunchCooperativeKernel_params *>(params);
      call->stream = p->hStream;
      *shape = shape_of(p);
      return;
    }
    case KERNEL_EX: {
      auto p = static_cast<const cuLaunchKernelEx_params *>(params);
      const CUlaunchConfig *c = p->config;
      call->stream = c->hStream;
      *shape = {p->f,
                {c->gridDimX, c->gridDimY, c->gridDimZ},
                {c->blockDimX, c->blockDimY, c->blockDimZ},
                c->sharedMemBytes};
      return;
    }
    case GRAPH:
      call->stream = static_cast<const cuGraphLaunch_params *>(params)->hStream;
      return;
    case OLD:
      *shape = {static_cast<const cuLaunch_params *>(params)->f, {1, 1, 1}, {0, 0, 0}, 0};
      return;
    case OLD_GRID:
      *shape = old_shape_of(static_cast<const cuLaunchGrid_params *>(params));
      return;
    case OLD_STREAM:
      call->stream = static_cast<const cuLaunchGridAsync_params *>(params)->hStream;
      *shape = old_shape_of(static_cast<const cuLaunchGridAsync_params *>(params));
      return;
    case DEVICES:
    case NO_LAUNCH:
      return;
  }
}

/* A call into a stream that is being captured adds a graph node and launches nothing. Streams join
 * a capture through events, so the driver is queried, but only during a capture. */
bool is_captured(CUstream stream) {
  if (captures.load(std::memory_order_relaxed) == 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void launch_returns(const LaunchCall &kind, const CUpti_CallbackData *data) {
  ApiCall call = {};
  Shape shape = {};
  call.correlation = data->correlationId;
  call.outer[0] = runtime.first;
  call.outer[1] = runtime.last() == runtime.first ? 0 : runtime.last();
  call.tsc_run = *data->correlationData;
  call.context = data->context;
  call.per_thread_stream = kind.per_thread_stream;
  call.name = data->symbolName;
  decode(kind.kind, data->functionParams, &call, &shape);
  bool failed = *static_cast<const CUresult *>(data->functionReturnValue) != CUDA_SUCCESS;
  Ours guard;
  if (failed || (kind.kind != DEVICES && is_captured(call.stream))) return;
  if (kind.kind == DEVICES) {
    auto p = static_cast<const cuLaunchCooperativeKernelMultiDevice_params *>(data->functionParams);
    recorder->launched_on_devices(call, p->launchParamsList, p->numDevices);
  } else if (kind.kind == GRAPH) {
    auto p = static_cast<const cuGraphLaunch_params *>(data->functionParams);
    recorder->graph_launched(call, p->hGraph);
  } else {
    recorder->launched(call, shape);
  }
}

/* ---- calls that change graphs --------------------------------------------------------------- */

const uint32_t CAPTURE_BEGINS[] = {
    XPU_CBID(cuStreamBeginCapture),        XPU_CBID(cuStreamBeginCapture_ptsz),
    XPU_CBID(cuStreamBeginCapture_v2),     XPU_CBID(cuStreamBeginCapture_v2_ptsz),
    XPU_CBID(cuStreamBeginCaptureToGraph), XPU_CBID(cuStreamBeginCaptureToGraph_ptsz),
};
const uint32_t CAPTURE_ENDS[] = {XPU_CBID(cuStreamEndCapture), XPU_CBID(cuStreamEndCapture_ptsz)};
const uint32_t INSTANTIATES[] = {
    XPU_CBID(cuGraphInstantiate),
    XPU_CBID(cuGraphInstantiate_v2),
    XPU_CBID(cuGraphInstantiateWithFlags),
    XPU_CBID(cuGraphInstantiateWithParams),
    XPU_CBID(cuGraphInstantiateWithParams_ptsz),
};
const uint32_t GRAPH_CHANGES[] = {
    XPU_CBID(cuGraphExecChildGraphNodeSetParams),
    XPU_CBID(cuGraphExecDestroy),
    XPU_CBID(cuGraphExecKernelNodeSetParams),
    XPU_CBID(cuGraphExecKernelNodeSetParams_v2),
    XPU_CBID(cuGraphExecNodeSetParams),
    XPU_CBID(cuGraphExecUpdate),
    XPU_CBID(cuGraphExecUpdate_v2),
    XPU_CBID(cuGraphNodeSetEnabled),
};

template <size_t n>
bool any_of(const uint32_t (&list)[n], CUpti_CallbackId cbid) {
  for (uint32_t one : list)
    if (one == cbid) return true;
  return false;
}

void graph_changed(CUpti_CallbackId cbid, const void *params) {
  Graphs &graphs = recorder->graphs;
  switch (cbid) {
    case XPU_CBID(cuGraphExecDestroy):
      graphs.destroyed(static_cast<const cuGraphExecDestroy_params *>(params)->hGraphExec);
      return;
    case XPU_CBID(cuGraphExecChildGraphNodeSetParams): {
      auto p = static_cast<const cuGraphExecChildGraphNodeSetParams_params *>(params);
      graphs.set_child(p->hGraphExec, p->hNode, p->childGraph);
      return;
    }
    case XPU_CBID(cuGraphExecKernelNodeSetParams): {
      auto p = static_cast<const cuGraphExecKernelNodeSetParams_params *>(params);
      graphs.set_params(p->hGraphExec, p->hNode, kernel_node_params(*p->nodeParams));
      return;
    }
    case XPU_CBID(cuGraphExecKernelNodeSetParams_v2): {
      auto p = static_cast<const cuGraphExecKernelNodeSetParams_v2_params *>(params);
      graphs.set_params(p->hGraphExec, p->hNode, *p->nodeParams);
      return;
    }
    case XPU_CBID(cuGraphExecNodeSetParams): {
      auto p = static_cast<const cuGraphExecNodeSetParams_params *>(params);
      if (p->nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL)
        graphs.set_params(p->hGraphExec, p->hNode, kernel_node_params(p->nodeParams->kernel));
      else if (p->nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
        graphs.set_child(p->hGraphExec, p->hNode, p->nodeParams->graph.graph);
      return;
    }
    case XPU_CBID(cuGraphExecUpdate):
    case XPU_CBID(cuGraphExecUpdate_v2): { /* both begin with exec and graph */
      auto p = static_cast<const cuGraphExecUpdate_v2_params *>(params);
      graphs.updated(p->hGraphExec, p->hGraph);
      return;
    }
    case XPU_CBID(cuGraphNodeSetEnabled): {
      auto p = static_cast<const cuGraphNodeSetEnabled_params *>(params);
      graphs.set_enabled(p->hGraphExec, p->hNode, p->isEnabled);
      return;
    }
    default: { /* the instantiating calls all begin with exec and graph */
      auto p = static_cast<const cuGraphInstantiate_params *>(params);
      graphs.instantiated(*p->phGraphExec, p->hGraph);
    }
  }
}

void other_call_returns(CUpti_CallbackId cbid, const CUpti_CallbackData *data) {
  bool done = *static_cast<const CUresult *>(data->functionReturnValue) == CUDA_SUCCESS;
  if (any_of(CAPTURE_BEGINS, cbid)) {
    if (done) captures++;
  } else if (any_of(CAPTURE_ENDS, cbid)) {
    if (captures > 0) captures--; /* an invalidated capture ends with an error, but it ends */
  } else if (done && (any_of(INSTANTIATES, cbid) || any_of(GRAPH_CHANGES, cbid))) {
    Ours guard;
    std::lock_guard<std::mutex> hold(recorder->lock);
    graph_changed(cbid, data->functionParams);
  }
}

/* ---- cudaProfilerStart and cudaProfilerStop --------------------------------------------------
 * They switch a window's marker on and off, as nsys's --capture-range does. CUPTI may show the
 * runtime's call, the driver's, or both: repeated calls change nothing. */
const uint32_t STARTS_AND_STOPS[] = {XPU_CBID(cuProfilerStart), XPU_CBID(cuProfilerStop)};
const CUpti_CallbackId RUNTIME_STARTS_AND_STOPS[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000,
    CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000,
};
std::atomic<bool> started{false};

template <typename Ids>
void turn_profiler(const Ids &ids, CUpti_CallbackId cbid) {
  if (cbid == ids[0] && !started.exchange(true)) xpu_window_begin(XPU_MARKER_CUDA_PROFILER);
  if (cbid == ids[1] && started.exchange(false)) xpu_window_end(XPU_MARKER_CUDA_PROFILER);
}

/* ---- callbacks ------------------------------------------------------------------------------ */

void bracket(CUpti_ApiCallbackSite site) {
  if (!bracket_calls) return;
  if (site == CUPTI_API_ENTER) {
    depth++;
    xpu_api_enter();
  } else if (depth > 0) { /* we may have been loaded in the middle of a call */
    depth--;
    xpu_api_leave();
  }
}

void leave_out_runtime_launches();

void driver_call(CUpti_CallbackId cbid, const CUpti_CallbackData *data) {
  if (ours) return;
  const LaunchCall *launch = launch_call(cbid);
  if (data->callbackSite == CUPTI_API_ENTER) {
    bracket(CUPTI_API_ENTER);
    if (launch) {
      recorder->call_begins();
      launching++;
      *data->correlationData = xpu_tsc();
    }
    return;
  }
  if (launch)
    launch_returns(*launch, data);
  else
    other_call_returns(cbid, data);
  if (launch && launching > 0) {
    launching--;
    recorder->call_ends();
    if (!recorder->needs_runtime_calls()) leave_out_runtime_launches();
  }
  bracket(CUPTI_API_EXIT);
  turn_profiler(STARTS_AND_STOPS, cbid);
  if (launch) xpu_window_settle();
}

void runtime_call_at(CUpti_CallbackId cbid, const CUpti_CallbackData *data) {
  if (ours) return;
  bracket(data->callbackSite);
  if (data->callbackSite == CUPTI_API_ENTER) {
    runtime.enter(data->correlationId);
    return;
  }
  runtime.leave();
  turn_profiler(RUNTIME_STARTS_AND_STOPS, cbid);
}

void resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data) {
  Ours guard;
  if (cbid == CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING) {
    recorder->stream_ends(data->resourceHandle.stream);
    return;
  }
  if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
    recorder->context_ends(data->context);
    return;
  }
  auto module = static_cast<const CUpti_ModuleResourceData *>(data->resourceDescriptor);
  if (cbid == CUPTI_CBID_RESOURCE_MODULE_LOADED) {
    recorder->kernels.module_loaded(module->pCubin, module->cubinSize);
  } else if (cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
    recorder->kernels.module_unloaded(module->pCubin, module->cubinSize);
  } else if (cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) {
    auto graph = static_cast<const CUpti_GraphData *>(data->resourceDescriptor);
    recorder->graphs.cloned(graph->node, graph->originalNode);
  }
}

void CUPTIAPI on_event(void *, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                       const void *data) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
    driver_call(cbid, static_cast<const CUpti_CallbackData *>(data));
  else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
    runtime_call_at(cbid, static_cast<const CUpti_CallbackData *>(data));
  else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
    resource(cbid, static_cast<const CUpti_ResourceData *>(data));
}

/* ---- activity records ----------------------------------------------------------------------- */

enum { BUFFER_BYTES = 1 << 20, FLUSH_PERIOD_MS = 1000 };

void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *records) {
  *buffer = static_cast<uint8_t *>(aligned_alloc(8, BUFFER_BYTES));
  *size = *buffer ? BUFFER_BYTES : 0;
  *records = 0;
}

/* The fields read here have the same offsets from CUDA 11 on. */
static_assert(offsetof(CUpti_ActivityKernel9, graphNodeId) ==
                  offsetof(CUpti_ActivityKernel10, graphNodeId),
              "kernel records of CUDA 12 and 13");
static_assert(offsetof(CUpti_ActivityMemcpy5, streamId) ==
                  offsetof(CUpti_ActivityMemcpy6, streamId),
              "copy records of CUDA 12 and 13");
static_assert(offsetof(CUpti_ActivityMemset3, streamId) ==
                  offsetof(CUpti_ActivityMemset4, streamId),
              "fill records of CUDA 11 and 12");

uint32_t direction(uint8_t kind) {
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD || kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOA)
    return XP_COPY_TO_DEVICE;
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH || kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOH)
    return XP_COPY_TO_HOST;
  return XP_COPY_WITHIN;
}

template <typename Copy>
void take_copy(const CUpti_Activity *record, Recorder::Delivery *delivery) {
  auto c = reinterpret_cast<const Copy *>(record);
  delivery->copied(direction(c->copyKind), c->bytes, c->start, c->end, c->streamId);
}

void take(const CUpti_Activity *record, Recorder::Delivery *delivery) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      auto k = reinterpret_cast<const CUpti_ActivityKernel9 *>(record);
      delivery->kernel_done({k->correlationId, k->deviceId, k->graphNodeId, k->start, k->end});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      take_copy<CUpti_ActivityMemcpy5>(record, delivery);
      return;
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      auto m = reinterpret_cast<const CUpti_ActivityMemset3 *>(record);
      delivery->copied(XP_COPY_FILL, m->bytes, m->start, m->end, m->streamId);
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      take_copy<CUpti_ActivityMemcpyPtoP4>(record, delivery);
      return;
    default:
      return;
  }
}

void CUPTIAPI buffer_filled(CUcontext context, uint32_t stream, uint8_t *buffer, size_t,
                            size_t valid) {
  size_t dropped = 0;
  if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) != CUPTI_SUCCESS)
    dropped = 0;
  Recorder::Delivery delivery(recorder);
  CUpti_Activity *record = nullptr;
  while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    take(record, &delivery);
  delivery.dropped(dropped);
  free(buffer);
}

enum : CUpti_CallbackId { MOST_CALLBACKS = 4096 };

/* ---- life ----------------------------------------------------------------------------------- */

/* A forked child has neither CUPTI's threads nor the driver's: nothing of theirs may be called. */
pid_t process;

void finish() {
  static std::atomic<bool> finished{false};
  if (getpid() != process || finished.exchange(true)) return;
  Ours guard;
  cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  recorder->finish();
  xpu_gpu_fini();
}

/* The program is ended after its window: whatever it launched belongs to the profile. */
void harvest() {
  Ours guard;
  recorder->wait_for_all();
  finish();
}

void enable(CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  cupti.cuptiEnableCallback(1, subscriber, domain, cbid);
}

template <size_t n>
void enable_driver_calls(const uint32_t (&list)[n]) {
  for (uint32_t cbid : list) enable(CUPTI_CB_DOMAIN_DRIVER_API, cbid);
}

/* Every CUDA release brings new launch calls (13.0: __cudaLaunchKernel): CUPTI names those it
 * knows. cudaLaunchHostFunc launches no kernel. */
std::vector<CUpti_CallbackId> launch_calls_of(CUpti_CallbackDomain domain) {
  std::vector<CUpti_CallbackId> found;
  const char *name = nullptr;
  for (CUpti_CallbackId cbid = 1; cbid < MOST_CALLBACKS; cbid++)
    if (cupti.cuptiGetCallbackName(domain, cbid, &name) == CUPTI_SUCCESS && name &&
        strstr(name, "Launch") && !strstr(name, "HostFunc"))
      found.push_back(cbid);
  return found;
}

/* Driver launch calls that cannot be decoded: their launches are missing, which must be
 * reported. */
std::string calls_not_understood() {
  std::string names;
  const char *name = nullptr;
  for (CUpti_CallbackId cbid : launch_calls_of(CUPTI_CB_DOMAIN_DRIVER_API)) {
    cupti.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, cbid, &name);
    if (!launch_call(cbid)) names += (names.empty() ? "" : " ") + std::string(name);
  }
  return names;
}

void enable_callbacks() {
  for (CUpti_CallbackId cbid :
       {CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
        CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
        CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING})
    enable(CUPTI_CB_DOMAIN_RESOURCE, cbid);
  if (bracket_calls) {
    cupti.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    cupti.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
    return;
  }
  for (const LaunchCall &call : LAUNCH_CALLS) enable(CUPTI_CB_DOMAIN_DRIVER_API, call.cbid);
  enable_driver_calls(CAPTURE_BEGINS);
  enable_driver_calls(CAPTURE_ENDS);
  enable_driver_calls(INSTANTIATES);
  enable_driver_calls(GRAPH_CHANGES);
  enable_driver_calls(STARTS_AND_STOPS);
  for (CUpti_CallbackId cbid : RUNTIME_STARTS_AND_STOPS) enable(CUPTI_CB_DOMAIN_RUNTIME_API, cbid);
  /* The completions of a launch may carry the id of the enclosing runtime call. */
  for (CUpti_CallbackId cbid : launch_calls_of(CUPTI_CB_DOMAIN_RUNTIME_API))
    enable(CUPTI_CB_DOMAIN_RUNTIME_API, cbid);
}

/* They carry the driver call's. */
void leave_out_runtime_launches() {
  static std::atomic<bool> left_out{bracket_calls};
  if (left_out.load(std::memory_order_relaxed) || left_out.exchange(true)) return;
  Ours guard;
  for (CUpti_CallbackId cbid : launch_calls_of(CUPTI_CB_DOMAIN_RUNTIME_API))
    cupti.cuptiEnableCallback(0, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, cbid);
}

bool start(const char **why) {
  if (!load_driver(why) || !load_cupti(why)) return false;
  CUptiResult result = cupti.cuptiSubscribe(&subscriber, on_event, nullptr);
  if (result != CUPTI_SUCCESS) {
    cupti.cuptiGetResultString(result, why);
    return false;
  }
  const char *mode = getenv(XPU_ENV_MODE), *timer = getenv(XPU_ENV_TIMER);
  bool sync = timer && strcmp(timer, "sync") == 0;
  bracket_calls = !mode || strcmp(mode, "time") != 0;
  /* Never freed: callbacks may come until the very end. */
  recorder = new Recorder(
      sync, bracket_calls ? "engine cuda counts no blocks" : "timed, not instrumented");
  enable_callbacks();
  if (sync) return true;
  cupti.cuptiActivityRegisterCallbacks(buffer_wanted, buffer_filled);
  cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY2);
  cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  /* A killed program loses at most the last second. */
  if (cupti.cuptiActivityFlushPeriod) cupti.cuptiActivityFlushPeriod(FLUSH_PERIOD_MS);
  return true;
}

}  // namespace

/* Never fails towards the driver: the program must run as if we were not there. */
extern "C" XPU_API int InitializeInjection(void) {
  const char *dir = getenv(XPU_ENV_DIR), *why = "";
  if (!dir || !*dir || recorder) return 1;
  process = getpid();
  Ours guard;
  xpu_api_enter(); /* CUPTI's threads are not the program's */
  if (start(&why)) {
    uint32_t version = 0;
    cupti.cuptiGetVersion(&version);
    xpu_gpu_init("cuda", ("CUPTI API " + std::to_string(version)).c_str(), "warp", 32);
    if (std::string unknown = calls_not_understood(); !unknown.empty())
      xpu_meta("launch_calls_not_understood", unknown.c_str());
    xpu_register_harvest(harvest);
    atexit(finish);
  } else {
    xpu_gpu_init("cuda", "", "warp", 32);
    xpu_meta("gpu_engine_failed", why);
  }
  xpu_api_leave();
  return 1;
}
