// SPDX-License-Identifier: Apache-2.0
/* A stand-in for libcuda.so.1 and CUPTI in one library, for tests on machines without a GPU.
 *
 * It is a mock: nothing runs on any device. It keeps the driver contracts that xpuprof's launch
 * bookkeeping relies on (handles, streams, capture, graphs, callbacks, correlation ids, activity
 * records with time stamps) and forces cases that silicon does not show on demand: records out of
 * order, records before the launch call returns, records with the runtime call's id, kernels
 * without a launch call. It cannot show whether NVIDIA's libraries keep these contracts;
 * tools/device/nvidia_checks.sh does that.
 *
 * FAKE_CUDA_SHUFFLE=SEED   activity records are delivered in random order
 * FAKE_CUDA_EAGER=1        each record is delivered before its launch call returns
 * FAKE_CUDA_LATE=1         no record of a kernel is delivered before the kernel is over
 * FAKE_CUDA_NEWER=1        CUPTI names a launch call that did not exist when we were written
 * FAKE_CUDA_OLD=1          CUPTI takes no clock from a tool
 * FAKE_CUDA_STEP=1         CUPTI's own clock steps by a second before records are delivered
 * FAKE_CUDA_LAZY=1         a module is loaded, and a kernel of the driver's own launched, when a
 *                          function's attributes are first asked for
 * FAKE_CUDA_TIMELESS=1     every third kernel has no time stamps
 * FAKE_CUDA_FAULT=illegal  a context is made with an instruction that Valgrind 3.19 does not know
 * FAKE_CUDA_FAULT=hang     under Valgrind the driver never sees its device finish
 * FAKE_CUDA_FAULT=busy     no context can be made
 */
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#undef cuGraphKernelNodeGetParams

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "objects.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

static std::recursive_mutex world;
static CUctx_st contexts[2] = {{1, 0}, {2, 1}};
static CUstream_st default_streams[2] = {{&contexts[0], 7, nullptr, nullptr, 0},
                                         {&contexts[1], 7, nullptr, nullptr, 0}};
static CUstream_st thread_streams[2] = {{&contexts[0], 8, nullptr, nullptr, 0},
                                        {&contexts[1], 8, nullptr, nullptr, 0}};
static thread_local CUcontext current = nullptr;
static std::atomic<uint32_t> next_id{100};
static std::atomic<uint32_t> next_correlation{1};
static thread_local uint32_t runtime_correlation = 0; /* records carry it if set */

static uint64_t now_ns() { /* the device's clock */
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

/* ---- CUPTI ---------------------------------------------------------------------------------- */

static CUpti_TimestampCallbackFunc tool_clock;
static uint64_t own_clock = 7000000000000u; /* CUPTI's, beyond the device's */
static uint64_t cupti_ns() { return tool_clock ? tool_clock() : now_ns() + own_clock; }

/* What is to be added to the device's stamps: of several readings of both clocks the narrowest. */
static uint64_t to_cupti() {
  uint64_t best = 0, narrowest = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = now_ns(), stamp = cupti_ns(), after = now_ns();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = stamp - (before + (after - before) / 2);
  }
  return best;
}

static pid_t process = getpid();
static CUpti_CallbackFunc subscriber_callback;
static void *subscriber_data;
static std::set<std::pair<int, uint32_t>> enabled_callbacks;
static std::set<int> enabled_domains, enabled_kinds;
static CUpti_BuffersCallbackRequestFunc buffer_wanted;
static CUpti_BuffersCallbackCompleteFunc buffer_filled;

union Record {
  CUpti_ActivityKernel10 kernel;
  CUpti_ActivityMemcpy6 copy;
  CUpti_ActivityMemset4 fill;
};
static std::vector<Record> records;

static bool is_enabled(CUpti_CallbackDomain domain, uint32_t cbid) {
  return subscriber_callback &&
         (enabled_domains.count(domain) || enabled_callbacks.count({domain, cbid}));
}

static void resource_event(CUpti_CallbackIdResource cbid, CUcontext context, void *descriptor) {
  if (!is_enabled(CUPTI_CB_DOMAIN_RESOURCE, cbid)) return;
  CUpti_ResourceData data = {};
  data.context = context;
  data.resourceDescriptor = descriptor;
  subscriber_callback(subscriber_data, CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

/* One API call between its two callbacks. */
template <typename Params, typename Body>
static CUresult api(CUpti_CallbackDomain domain, uint32_t cbid, const char *name, Params params,
                    const char *symbol, Body body) {
  uint32_t correlation = next_correlation++;
  uint64_t scratch = 0;
  CUresult result = CUDA_SUCCESS;
  CUpti_CallbackData data = {};
  data.functionName = name;
  data.functionParams = &params;
  data.functionReturnValue = &result;
  data.symbolName = symbol;
  data.context = current;
  data.contextUid = current ? current->id : 0;
  data.correlationData = &scratch;
  data.correlationId = correlation;
  data.callbackSite = CUPTI_API_ENTER;
  bool told = is_enabled(domain, cbid);
  if (told) subscriber_callback(subscriber_data, domain, cbid, &data);
  result = body(runtime_correlation ? runtime_correlation : correlation);
  data.callbackSite = CUPTI_API_EXIT;
  if (told) subscriber_callback(subscriber_data, domain, cbid, &data);
  return result;
}

#define DRIVER_API(name, symbol, ...) \
  api(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, #name, name##_params __VA_ARGS__, symbol

static void deliver() {
  std::lock_guard<std::recursive_mutex> hold(world);
  if (!buffer_filled || records.empty()) return;
  std::vector<Record> batch;
  batch.swap(records);
  if (getenv("FAKE_CUDA_LATE")) {
    auto over = [](const Record &r) {
      return r.kernel.kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || r.kernel.end <= now_ns();
    };
    auto late = std::stable_partition(batch.begin(), batch.end(), over);
    records.assign(late, batch.end());
    batch.erase(late, batch.end());
  }
  if (getenv("FAKE_CUDA_STEP")) own_clock = 7001000000000u;
  uint64_t later = to_cupti();
  for (Record &r : batch) {
    if (r.kernel.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      r.copy.start += later, r.copy.end += later;
    } else if (r.kernel.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      r.fill.start += later, r.fill.end += later;
    } else if (getenv("FAKE_CUDA_TIMELESS") && r.kernel.correlationId % 3 == 0) {
      r.kernel.start = r.kernel.end = 0;
    } else {
      r.kernel.start += later, r.kernel.end += later;
    }
  }
  if (const char *seed = getenv("FAKE_CUDA_SHUFFLE"))
    std::shuffle(batch.begin(), batch.end(), std::mt19937(static_cast<unsigned>(atoi(seed))));
  size_t at = 0;
  while (at < batch.size()) {
    uint8_t *buffer = nullptr;
    size_t size = 0, most = 0;
    buffer_wanted(&buffer, &size, &most);
    size_t n = std::min(batch.size() - at, size / sizeof(Record));
    if (!n) return;
    memcpy(buffer, &batch[at], n * sizeof(Record));
    at += n;
    buffer_filled(nullptr, 0, buffer, size, n * sizeof(Record));
  }
}

static void add_record(const Record &record) {
  {
    std::lock_guard<std::recursive_mutex> hold(world);
    records.push_back(record);
  }
  if (getenv("FAKE_CUDA_EAGER")) deliver();
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
                                  void *data) {
  subscriber_callback = callback;
  subscriber_data = data;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&subscriber_data);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  enabled_callbacks.insert({domain, cbid});
  return CUPTI_SUCCESS;
}
/* As CUPTI 13 names them. */
EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                        const char **name) {
  static const std::map<std::pair<int, uint32_t>, const char *> names = {
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel}, "cuLaunchKernel"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc}, "cuLaunchHostFunc"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, 3000}, "cuLaunchTomorrow"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 211}, "cudaLaunchKernel_v7000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, 505}, "__cudaLaunchKernel_v13000"},
  };
  auto known = names.find({domain, cbid});
  if (known == names.end() || (cbid == 3000 && !getenv("FAKE_CUDA_NEWER")))
    return CUPTI_ERROR_INVALID_PARAMETER;
  *name = known->second;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle,
                                     CUpti_CallbackDomain domain) {
  enabled_domains.insert(domain);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  enabled_kinds.insert(kind);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiActivityFlushPeriod(uint32_t) { return CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) {
  if (getpid() != process) abort(); /* CUPTI's threads are the parent's */
  deliver();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc wanted,
                                                  CUpti_BuffersCallbackCompleteFunc filled) {
  buffer_wanted = wanted;
  buffer_filled = filled;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                              CUpti_Activity **record) {
  uint8_t *next = *record ? reinterpret_cast<uint8_t *>(*record) + sizeof(Record) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(next);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetTimestamp(uint64_t *stamp) {
  *stamp = cupti_ns();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  if (getenv("FAKE_CUDA_OLD")) return CUPTI_ERROR_NOT_SUPPORTED;
  tool_clock = clock;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetVersion(uint32_t *version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
  *text = "stand-in";
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *device) {
  *device = context ? static_cast<uint32_t>(context->device) : 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id) {
  *id = node->id;
  return CUPTI_SUCCESS;
}

static CUstream resolve(CUcontext context, CUstream stream, bool per_thread) {
  int device = context ? context->device : 0;
  if (stream == CU_STREAM_PER_THREAD || (!stream && per_thread)) return &thread_streams[device];
  if (stream == CU_STREAM_LEGACY || !stream) return &default_streams[device];
  return stream;
}

extern "C" CUstream fake_stream(CUstream handle) { return resolve(current, handle, false); }

EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
                                      uint32_t *id) {
  *id = resolve(context, stream, per_thread)->id;
  return CUPTI_SUCCESS;
}

static uint64_t busy_until[2]; /* by device */

/* ---- the device: streams are busy one kernel after the other -------------------------------- */

static CUresult run_kernel(CUfunction function, const uint32_t grid[3], CUstream stream,
                           uint32_t correlation, uint64_t node) {
  if (grid[0] == 0) return CUDA_ERROR_INVALID_VALUE;
  Record record = {};
  {
    std::lock_guard<std::recursive_mutex> hold(world);
    uint64_t start = std::max(now_ns(), stream->free_at);
    stream->free_at = start + 100u * grid[0] * grid[1] * grid[2];
    record.kernel.start = start;
    record.kernel.end = stream->free_at;
    uint64_t &busy = busy_until[stream->context->device];
    busy = std::max(busy, stream->free_at);
  }
  record.kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.kernel.correlationId = correlation;
  record.kernel.deviceId = static_cast<uint32_t>(stream->context->device);
  record.kernel.contextId = stream->context->id;
  record.kernel.streamId = stream->id;
  record.kernel.graphNodeId = node;
  record.kernel.name = function ? function->name.c_str() : "made on the device";
  if (enabled_kinds.count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) add_record(record);
  return CUDA_SUCCESS;
}

static CUgraphNode new_node(CUgraphNodeType type) {
  return new CUgraphNode_st{next_id++, type, {}, nullptr, {}, nullptr, true};
}

static CUgraphNode add_kernel_node(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS_v2 &params,
                                   std::vector<CUgraphNode> after) {
  CUgraphNode node = new_node(CU_GRAPH_NODE_TYPE_KERNEL);
  node->kernel = params;
  node->after = std::move(after);
  graph->nodes.push_back(node);
  return node;
}

/* Runs it, or adds it to the graph that the stream captures. */
static CUresult launch(CUfunction f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
                       uint32_t by, uint32_t bz, uint32_t shared, CUstream handle, bool per_thread,
                       uint32_t correlation, void **parameters = nullptr) {
  CUstream stream = resolve(current, handle, per_thread);
  uint32_t grid[3] = {gx, gy, gz};
  if (f->kernel_of) f = f->kernel_of;
  CUDA_KERNEL_NODE_PARAMS_v2 params = {f,  gx,     gy,         gz,      bx,      by,
                                       bz, shared, parameters, nullptr, nullptr, nullptr};
  if (!stream->capture && gx && ptx_run) ptx_run(stream, &params);
  if (!stream->capture) return run_kernel(f, grid, stream, correlation, 0);
  std::vector<CUgraphNode> after;
  if (stream->last_captured) after.push_back(stream->last_captured);
  stream->last_captured = add_kernel_node(stream->capture, params, after);
  return CUDA_SUCCESS;
}

/* ---- driver --------------------------------------------------------------------------------- */

EXPORT CUresult cuInit(unsigned) {
  static bool done;
  if (done) return CUDA_SUCCESS;
  done = true;
  if (ptx_starts) ptx_starts();
  const char *path = getenv("CUDA_INJECTION64_PATH");
  if (!path) return CUDA_SUCCESS;
  void *library = dlopen(path, RTLD_NOW);
  if (!library) return CUDA_ERROR_UNKNOWN;
  auto start = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (start) start();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int *count) {
  *count = 2;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

static bool has_fault(const char *name) {
  const char *fault = getenv("FAKE_CUDA_FAULT");
  return fault && strcmp(fault, name) == 0;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  static unsigned char area[4096] __attribute__((aligned(64)));
  if (has_fault("illegal")) __asm__ volatile("xsavec %0" : "=m"(area) : "a"(3), "d"(0) : "memory");
  if (has_fault("busy")) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = &contexts[device];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
/* Never destroyed: tools push contexts in handlers of the program's exit. */
static thread_local std::vector<CUcontext> &pushed = *new std::vector<CUcontext>;
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  pushed.push_back(current);
  current = context;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  *context = current;
  current = pushed.back();
  pushed.pop_back();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize() {
  while (now_ns() < busy_until[current->device]) {
  }
  return CUDA_SUCCESS;
}
/* The driver's call alone, or (`runtime`) with the runtime's call around it. */
EXPORT CUresult fake_profiler(int start, int runtime) {
  struct None {
    int nothing;
  };
  auto inner = [&] {
    uint32_t cbid =
        start ? CUPTI_DRIVER_TRACE_CBID_cuProfilerStart : CUPTI_DRIVER_TRACE_CBID_cuProfilerStop;
    return api(CUPTI_CB_DOMAIN_DRIVER_API, cbid, "cuProfiler", None{0}, nullptr,
               [](uint32_t) { return CUDA_SUCCESS; });
  };
  if (!runtime) return inner();
  uint32_t cbid = start ? CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000
                        : CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000;
  return api(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, "cudaProfiler", None{0}, nullptr,
             [&](uint32_t) { return inner(); });
}

static size_t image_size(const void *image) {
  Elf64_Ehdr head;
  if (memcmp(image, ELFMAG, SELFMAG) != 0)
    return strlen(static_cast<const char *>(image)); /* PTX */
  memcpy(&head, image, sizeof head);
  size_t end = head.e_shoff + static_cast<size_t>(head.e_shnum) * head.e_shentsize;
  size_t other = head.e_phoff + static_cast<size_t>(head.e_phnum) * head.e_phentsize;
  return std::max(end, other);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  *module = new CUmod_st{current, next_id++, static_cast<const char *>(image), image_size(image),
                         nullptr};
  if (ptx_again) (*module)->ptx = ptx_again(static_cast<const char *>(image));
  if (ptx_load && !(*module)->ptx) (*module)->ptx = ptx_load(static_cast<const char *>(image));
  CUpti_ModuleResourceData data = {(*module)->id, (*module)->size, (*module)->cubin};
  resource_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, current, &data);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleUnload(CUmodule module) {
  if (ptx_unloaded && module->ptx) ptx_unloaded(module->cubin, module->ptx);
  CUpti_ModuleResourceData data = {module->id, module->size, module->cubin};
  resource_event(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, current, &data);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  *function = new CUfunc_st{name, module, {1, 1, 1}, nullptr};
  return CUDA_SUCCESS;
}
/* A handle may go to another function after its module was unloaded. */
EXPORT void fake_reuse_handle(CUfunction function, const char *name) { function->name = name; }
EXPORT CUresult cuFuncGetName(const char **name, CUfunction function) {
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}
static void load_lazily(CUmodule module) {
  static bool done;
  if (done || !getenv("FAKE_CUDA_LAZY")) return;
  done = true;
  CUpti_ModuleResourceData data = {module->id, module->size, module->cubin};
  resource_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, current, &data);
  static CUfunc_st starts_module = {"starts_module", module, {1, 1, 1}, nullptr};
  cuLaunchKernel(&starts_module, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}
EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
  load_lazily(function->module);
  *value = which == CU_FUNC_ATTRIBUTE_NUM_REGS ? 16 + static_cast<int>(function->name.size())
           : which == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 512
           : which == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES  ? 8
                                                          : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned) {
  *stream = new CUstream_st{current, next_id++, nullptr, nullptr, 0};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  *context = resolve(current, stream, false)->context;
  return CUDA_SUCCESS;
}
static thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}
/* Streams captured by whatever thread: calls that may be unsafe end their captures. */
static std::set<CUstream> captured, spoilt;
static void unsafe_call() {
  if (thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    spoilt.insert(captured.begin(), captured.end());
}
static std::atomic<int> synchronised{0};
EXPORT int fake_synchronised() { return synchronised; }
EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  CUstream stream = resolve(current, handle, false);
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  unsafe_call();
  synchronised++;
  if (ptx_catch_up) ptx_catch_up(stream);
  while (has_fault("hang") && getenv("VALGRIND_LIB")) pause();
  while (now_ns() < stream->free_at) {
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  CUstream stream = resolve(current, handle, false);
  *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return DRIVER_API(cuStreamBeginCapture_v2, nullptr, {stream, mode}), [&](uint32_t) {
    stream->capture = new CUgraph_st;
    stream->last_captured = nullptr;
    captured.insert(stream);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return DRIVER_API(cuStreamEndCapture, nullptr, {stream, graph}), [&](uint32_t) {
    *graph = stream->capture;
    stream->capture = nullptr;
    captured.erase(stream);
    return spoilt.count(stream) ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  });
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  *at = reinterpret_cast<CUdeviceptr>(malloc(bytes));
  if (ptx_allocated) ptx_allocated(*at, bytes);
  return CUDA_SUCCESS;
}

static void copied(CUpti_ActivityMemcpyKind kind, size_t bytes) {
  Record record = {};
  record.copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copy.copyKind = static_cast<uint8_t>(kind);
  record.copy.bytes = bytes;
  record.copy.start = now_ns();
  record.copy.end = record.copy.start + bytes;
  record.copy.streamId = 7;
  if (enabled_kinds.count(CUPTI_ACTIVITY_KIND_MEMCPY)) add_record(record);
}

/* Copies from or to NULL move nothing: a test may want only the record. */
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  if (to && from) memcpy(reinterpret_cast<void *>(to), from, bytes);
  copied(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t bytes) {
  if (at) memset(reinterpret_cast<void *>(at), value, bytes);
  Record record = {};
  record.fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.fill.bytes = bytes;
  record.fill.start = now_ns();
  record.fill.end = record.fill.start + bytes;
  record.fill.streamId = 7;
  if (enabled_kinds.count(CUPTI_ACTIVITY_KIND_MEMSET)) add_record(record);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  if (to && from) memcpy(to, reinterpret_cast<void *>(from), bytes);
  copied(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, bytes);
  return CUDA_SUCCESS;
}

/* ---- launch calls --------------------------------------------------------------------------- */

#define KERNEL_CALL(call, per_thread)                                                               \
  EXPORT CUresult call(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,            \
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,   \
                       void **extra) {                                                              \
    return DRIVER_API(call, f->name.c_str(),                                                      \
                      {f, gx, gy, gz, bx, by, bz, shared, stream, params, extra}),                \
           [&](uint32_t correlation) {                                                            \
             return launch(f, gx, gy, gz, bx, by, bz, shared, stream, per_thread, correlation, params);   \
           });                                                                                      \
  }
KERNEL_CALL(cuLaunchKernel, false)
KERNEL_CALL(cuLaunchKernel_ptsz, true)

#define COOPERATIVE_CALL(call, per_thread)                                                           \
  EXPORT CUresult call(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,             \
                       unsigned by, unsigned bz, unsigned shared, CUstream stream,                   \
                       void **params) {                                                              \
    return DRIVER_API(call, f->name.c_str(),                                                       \
                      {f, gx, gy, gz, bx, by, bz, shared, stream, params}),                        \
           [&](uint32_t correlation) {                                                             \
             return launch(f, gx, gy, gz, bx, by, bz, shared, stream, per_thread, correlation, params);    \
           });                                                                                       \
  }
COOPERATIVE_CALL(cuLaunchCooperativeKernel, false)
COOPERATIVE_CALL(cuLaunchCooperativeKernel_ptsz, true)

#define EX_CALL(call, per_thread)                                                                  \
  EXPORT CUresult call(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {       \
    return DRIVER_API(call, f->name.c_str(), {c, f, params, extra}), [&](uint32_t correlation) { \
      return launch(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,       \
                    c->blockDimZ, c->sharedMemBytes, c->hStream, per_thread, correlation, params);      \
    });                                                                                            \
  }
EX_CALL(cuLaunchKernelEx, false)
EX_CALL(cuLaunchKernelEx_ptsz, true)

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n,
                                                     unsigned flags) {
  return DRIVER_API(cuLaunchCooperativeKernelMultiDevice, list[0].function->name.c_str(),
                    {list, n, flags}),
         [&](uint32_t correlation) {
    for (unsigned i = 0; i < n; i++) {
      uint32_t grid[3] = {list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ};
      run_kernel(list[i].function, grid, list[i].hStream, correlation, 0);
    }
    return CUDA_SUCCESS;
         });
}
EXPORT CUresult cuLaunch(CUfunction f) {
  return DRIVER_API(cuLaunch, f->name.c_str(), {f}), [&](uint32_t correlation) {
    return launch(f, 1, 1, 1, 1, 1, 1, 0, nullptr, false, correlation);
  });
}
EXPORT CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  return DRIVER_API(cuLaunchGrid, f->name.c_str(), {f, width, height}), [&](uint32_t correlation) {
    return launch(f, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 1, 1, 1, 1, 0,
                  nullptr, false, correlation);
  });
}
EXPORT CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  return DRIVER_API(cuLaunchGridAsync, f->name.c_str(), {f, width, height, stream}),
         [&](uint32_t correlation) {
    return launch(f, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 1, 1, 1, 1, 0,
                  stream, false, correlation);
         });
}
/* The runtime's launch. `nested`: as from CUDA 13 on, where one runtime call calls another. Records
 * bear the id of the `bearer`-th call from outside, not that of the driver's inside. */
struct RuntimeLaunch {
  CUfunction f;
};
static CUresult runtime_launch(CUfunction f, unsigned grid, unsigned block, CUstream stream,
                               bool nested, bool outer_bears) {
  uint32_t cbid = nested ? 211 : 505;
  return api(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, "cudaLaunchKernel", RuntimeLaunch{f},
             f->name.c_str(), [&](uint32_t correlation) {
               if (!runtime_correlation || !outer_bears) runtime_correlation = correlation;
               if (nested) {
                 if (!outer_bears) runtime_correlation = 0;
                 return runtime_launch(f, grid, block, stream, false, outer_bears);
               }
               CUresult result =
                   cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, stream, nullptr, nullptr);
               runtime_correlation = 0;
               return result;
             });
}
EXPORT CUresult fake_runtime_launch(CUfunction f, unsigned grid, unsigned block, CUstream stream,
                                    int nested, int outer_bears) {
  return runtime_launch(f, grid, block, stream, nested, outer_bears);
}

/* ---- graphs --------------------------------------------------------------------------------- */

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned) {
  *graph = new CUgraph_st;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                        size_t n, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  *node = add_kernel_node(graph, *params, std::vector<CUgraphNode>(after, after + n));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                         size_t n, CUgraph child) {
  *node = new_node(CU_GRAPH_NODE_TYPE_GRAPH);
  (*node)->child = child;
  (*node)->after.assign(after, after + n);
  graph->nodes.push_back(*node);
  return CUDA_SUCCESS;
}
/* A conditional node whose body runs one kernel unknown to the host. */
EXPORT CUresult fake_add_conditional(CUgraph graph) {
  graph->nodes.push_back(new_node(CU_GRAPH_NODE_TYPE_CONDITIONAL));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
  if (nodes) std::copy_n(graph->nodes.begin(), std::min(*n, graph->nodes.size()), nodes);
  *n = graph->nodes.size();
  return CUDA_SUCCESS;
}
#undef cuGraphGetEdges
EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n) {
  size_t edges = 0;
  for (CUgraphNode node : graph->nodes)
    for (CUgraphNode before : node->after) {
      if (from && edges < *n) {
        from[edges] = before;
        to[edges] = node;
      }
      edges++;
    }
  *n = edges;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  *type = node->type;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node,
                                              CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  *params = node->kernel;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  *graph = node->child;
  return CUDA_SUCCESS;
}

static CUgraph clone(CUgraph graph, CUgraphExec exec) {
  CUgraph copy = new CUgraph_st;
  for (CUgraphNode node : graph->nodes) {
    CUgraphNode twin = new CUgraphNode_st(*node);
    twin->id = next_id++;
    twin->original = node;
    exec->copy_of[node] = twin;
    for (CUgraphNode &before : twin->after) before = exec->copy_of[before];
    copy->nodes.push_back(twin);
    CUpti_GraphData data = {copy, graph, twin, node, node->type, nullptr, nullptr};
    resource_event(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, current, &data);
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) twin->child = clone(node->child, exec);
  }
  return copy;
}

#undef cuGraphInstantiate
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphExecUpdate
#define INSTANTIATE_CALL(call, parameters, ...)                         \
  EXPORT CUresult call parameters {                                     \
    return DRIVER_API(call, nullptr, {__VA_ARGS__}), [&](uint32_t) {  \
      *exec = new CUgraphExec_st;                                     \
      (*exec)->own = clone(graph, *exec);                             \
      return CUDA_SUCCESS;                                            \
    });                                                                 \
  }
INSTANTIATE_CALL(cuGraphInstantiate,
                 (CUgraphExec * exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes),
                 exec, graph, wrong, log, bytes)
INSTANTIATE_CALL(cuGraphInstantiate_v2,
                 (CUgraphExec * exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes),
                 exec, graph, wrong, log, bytes)
INSTANTIATE_CALL(cuGraphInstantiateWithFlags,
                 (CUgraphExec * exec, CUgraph graph, unsigned long long flags), exec, graph, flags)
INSTANTIATE_CALL(cuGraphInstantiateWithParams,
                 (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), exec,
                 graph, params)

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  return DRIVER_API(cuGraphExecKernelNodeSetParams, nullptr, {exec, node, params}), [&](uint32_t) {
    memcpy(&exec->copy_of[node]->kernel, params, sizeof *params);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  return DRIVER_API(cuGraphExecKernelNodeSetParams_v2, nullptr, {exec, node, params}),
         [&](uint32_t) {
    exec->copy_of[node]->kernel = *params;
    return CUDA_SUCCESS;
         });
}
EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                         CUgraphNodeParams *params) {
  return DRIVER_API(cuGraphExecNodeSetParams, nullptr, {exec, node, params}), [&](uint32_t) {
    memcpy(&exec->copy_of[node]->kernel, &params->kernel, sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
    return CUDA_SUCCESS;
  });
}
static void update(CUgraph own, CUgraph fresh) {
  for (size_t i = 0; i < fresh->nodes.size(); i++) own->nodes[i]->kernel = fresh->nodes[i]->kernel;
}
EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   CUgraph child) {
  return DRIVER_API(cuGraphExecChildGraphNodeSetParams, nullptr, {exec, node, child}),
         [&](uint32_t) {
    update(exec->copy_of[node]->child, child);
    return CUDA_SUCCESS;
         });
}
EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *wrong,
                                  CUgraphExecUpdateResult *how) {
  return DRIVER_API(cuGraphExecUpdate, nullptr, {exec, graph, wrong, how}), [&](uint32_t) {
    update(exec->own, graph);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                     CUgraphExecUpdateResultInfo *info) {
  return DRIVER_API(cuGraphExecUpdate_v2, nullptr, {exec, graph, info}), [&](uint32_t) {
    update(exec->own, graph);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return DRIVER_API(cuGraphNodeSetEnabled, nullptr, {exec, node, enabled}), [&](uint32_t) {
    exec->copy_of[node]->enabled = enabled;
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return DRIVER_API(cuGraphExecDestroy, nullptr, {exec}), [&](uint32_t) {
    return CUDA_SUCCESS; });
}

static void run_graph(CUgraph graph, CUstream stream, uint32_t correlation) {
  std::vector<CUgraphNode> left = graph->nodes;
  std::set<CUgraphNode> done;
  while (!left.empty()) {
    auto ready = std::find_if(left.begin(), left.end(), [&](CUgraphNode node) {
      return std::all_of(node->after.begin(), node->after.end(),
                         [&](CUgraphNode before) { return done.count(before) != 0; });
    });
    CUgraphNode node = *ready;
    left.erase(ready);
    done.insert(node);
    uint32_t grid[3] = {node->kernel.gridDimX, node->kernel.gridDimY, node->kernel.gridDimZ};
    uint32_t one[3] = {1, 1, 1};
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) run_graph(node->child, stream, correlation);
    if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
      run_kernel(nullptr, one, stream, correlation, next_id++);
    if (node->type != CU_GRAPH_NODE_TYPE_KERNEL || !node->enabled) continue;
    if (ptx_run_later) ptx_run_later(stream, &node->kernel);
    run_kernel(node->kernel.func, grid, stream, correlation, node->id);
  }
}

#define GRAPH_CALL(call, per_thread)                                                            \
  EXPORT CUresult call(CUgraphExec exec, CUstream stream) {                                     \
    return DRIVER_API(call, nullptr, {exec, stream}), [&](uint32_t correlation) {             \
      run_graph(exec->own, resolve(current, stream, per_thread), correlation);                \
      return CUDA_SUCCESS;                                                                    \
    });                                                                                         \
  }
GRAPH_CALL(cuGraphLaunch, false)
GRAPH_CALL(cuGraphLaunch_ptsz, true)
