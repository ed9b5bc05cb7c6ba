// SPDX-License-Identifier: Apache-2.0
/* libxpuprof_ptx.so: stands in front of the CUDA driver (libcuda.so.1) in the library search path.
 * It defines the driver functions that load code and launch kernels, and depends on the real driver
 * for all others. The program must run as if we were not there: whatever fails here, its own code
 * is loaded and launched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>

#include "counters.h"
#include "driver.h"
#include "graphs.h"
#include "node_params.h"
#include "programs.h"
#include "xpuprof/boundary.h"
#include "xpuprof/kernel_spec.hpp"

#define XPU_ENV_COUNTER_MEMORY "XPUPROF_COUNTER_MEMORY" /* MiB of device memory for counters */
#define XPU_ENV_COUNT_UNIT "XPUPROF_COUNT_UNIT"         /* lane (default) | warp */

#define HOOK extern "C" __attribute__((visibility("default")))

namespace {

using ptx::driver;
using ptx::Flight;
using ptx::Launch;

struct Engine {
  explicit Engine(ptx::Unit unit, uint64_t memory) : programs(unit), counters(memory) {}
  ptx::Programs programs;
  ptx::Counters counters;
  KernelFilter filter;
  std::map<CUstream, uint32_t> queues;
  bool device_launches_graphs = false;
};

/* Held from a launch's preparation to its record: the kernel's slot and the launch belong
 * together. */
std::recursive_mutex lock;
Engine *engine; /* never freed: calls come until the end */
std::atomic<bool> recording{false};
thread_local bool ours;

/* Inside one of our hooks: the device runtime's work, as CPU engines see it; and our own calls are
 * harmless to a stream capture in another thread. */
class Inside {
 public:
  Inside() {
    ours = true;
    xpu_api_enter();
    is_relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~Inside() {
    if (is_relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
    xpu_api_leave();
    ours = false;
  }

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool is_relaxed_; /* not before cuInit */
};

/* ---- life ----------------------------------------------------------------------------------- */

pid_t process; /* a forked child cannot use the driver */

void finish() {
  if (getpid() != process) return;
  std::lock_guard<std::recursive_mutex> hold(lock);
  if (!recording.exchange(false)) return;
  Inside inside;
  engine->counters.finish();
  xpu_meta("launches_not_read", std::to_string(engine->counters.lost()).c_str());
  xpu_gpu_fini();
}

void start() {
  const char *dir = getenv(XPU_ENV_DIR), *unit = getenv(XPU_ENV_COUNT_UNIT),
             *memory = getenv(XPU_ENV_COUNTER_MEMORY), *kernels = getenv(XPU_ENV_KERNELS);
  const char *missing = "";
  std::string why;
  bool found = ptx::load_driver(&missing);
  if (!dir || !*dir || !xpu_process_counts()) return;
  bool warps = unit && strcmp(unit, "warp") == 0;
  int version = 0;
  if (found) driver.cuDriverGetVersion(&version);
  xpu_gpu_init("ptx", ("driver " + std::to_string(version)).c_str(), warps ? "warp" : "lane", 32);
  if (!found) {
    xpu_meta("gpu_engine_failed",
             (std::string("the driver has no ") + missing + "; install 12.3 or later").c_str());
    return;
  }
  engine = new Engine(warps ? ptx::Unit::WARP : ptx::Unit::LANE,
                      memory ? strtoull(memory, nullptr, 10) << 20 : 0);
  if (kernels && !engine->filter.parse(kernels, &why)) xpu_meta("gpu_engine_failed", why.c_str());
  process = getpid();
  recording = true;
  xpu_register_harvest(finish);
  atexit(finish);
}

bool is_recording() {
  static std::once_flag once;
  std::call_once(once, start);
  return recording && !ours;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* `real` loads an image into a handle. */
template <typename Handle, typename Real>
CUresult load(const void *image, Handle *handle, Real real) {
  if (!is_recording() || !image) return real(image);
  std::lock_guard<std::recursive_mutex> hold(lock);
  Inside inside;
  std::string why;
  if (const char *text = engine->programs.rewritten(image, &why)) {
    if (real(text) == CUDA_SUCCESS) return CUDA_SUCCESS;
    why = "the driver rejected its PTX with counters";
  }
  CUresult result = real(image);
  if (result == CUDA_SUCCESS) engine->programs.loaded_as_it_is(*handle, why);
  return result;
}

/* A file of PTX or machine code, as memory. */
std::string content_of(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void unload(CUmodule module) {
  Inside inside;
  for (CUdeviceptr slot : engine->programs.slots_in(module)) engine->counters.forget(slot);
}

/* ---- launches ------------------------------------------------------------------------------- */

struct Shape {
  unsigned grid[3], block[3];
};

uint32_t dimensions(const Shape &shape) {
  for (int d = 2; d > 0; d--)
    if (shape.grid[d] > 1 || shape.block[d] > 1) return static_cast<uint32_t>(d) + 1;
  return 1;
}

/* Counts the call, which comes after `before` others that are not recorded yet. */
std::string why_not(const ptx::Kernel &kernel, uint64_t before) {
  bool chosen = engine->filter.chooses_next(kernel.name);
  engine->filter.launched(kernel.name);
  if (!xpu_window_is_open_after(before)) return XPU_REASON_OUTSIDE;
  if (!kernel.reason.empty()) return kernel.reason;
  return chosen ? "" : XPU_REASON_LEFT_OUT;
}

Launch launch_of(CUcontext context, CUfunction function, const Shape &shape, CUstream stream,
                 uint64_t before = 0) {
  Launch made = {};
  made.head = ptx::NO_HEAD;
  made.kernel = engine->programs.kernel(context, function);
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
  launch.queue =
      engine->queues.emplace(stream, static_cast<uint32_t>(engine->queues.size())).first->second;
  launch.device = static_cast<uint32_t>(device);
  return made;
}

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The frame of a launch call; `launch` takes the context. */
template <typename Real, typename Launch>
CUresult launching(CUstream stream, Real real, Launch launch) {
  if (!is_recording() || is_captured(stream)) return real();
  CUresult result;
  {
    std::lock_guard<std::recursive_mutex> hold(lock);
    Inside inside;
    CUcontext context = nullptr;
    driver.cuCtxGetCurrent(&context);
    result = launch(context);
  }
  xpu_window_settle();
  return result;
}

/* The driver ends itself when the program exits, before what was registered earlier: so once more,
 * now that it is at work. */
void finish_before_the_driver() {
  static std::once_flag once;
  std::call_once(once, [] { atexit(finish); });
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
template <typename Real>
CUresult fly(Flight *flight, Real real) {
  finish_before_the_driver();
  refuse_elsewhere(flight);
  engine->counters.prepare(flight);
  uint64_t tsc_run = xpu_tsc();
  CUresult result = real();
  if (result != CUDA_SUCCESS) {
    for (const Launch &launch : flight->launches) engine->filter.take_back(launch.kernel.name);
    engine->counters.did_not_go(flight);
    return result;
  }
  for (Launch &launch : flight->launches) {
    launch.shape.tsc_run = tsc_run;
    launch.shape.reason = launch.is_counted() ? nullptr : launch.reason.c_str();
    launch.number = xpu_kernel_run(&launch.shape);
  }
  engine->counters.went(flight);
  return result;
}

Flight flight_on(CUcontext context, CUstream stream) {
  Flight flight = {};
  flight.context = context;
  flight.stream = ptx::stream_of(stream);
  return flight;
}

template <typename Real>
CUresult launch(CUfunction function, const Shape &shape, CUstream stream, Real real) {
  return launching(stream, real, [&](CUcontext context) {
    Flight flight = flight_on(context, stream);
    flight.launches.push_back(launch_of(context, function, shape, stream));
    return fly(&flight, real);
  });
}

/* Kernels of a graph that read one slot are told apart by their order: without one, none of them is
 * counted. A kernel may not read a slot that another needs to be empty, nor write to another
 * device.
 */
void refuse_unclear(CUgraphExec exec, const ptx::GraphLaunches &graph, Flight *flight) {
  std::map<CUdeviceptr, std::string> unclear;
  std::map<CUdeviceptr, const ptx::GraphLaunch *> last;
  for (size_t i = 0; i < flight->launches.size(); i++) {
    const ptx::Kernel &kernel = flight->launches[i].kernel;
    const ptx::GraphLaunch *&before = last[kernel.slot];
    if (before && !ptx::is_before(exec, *before, graph.kernels[i]))
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

Flight flight_of(CUcontext context, CUgraphExec exec, CUstream stream,
                 const ptx::GraphLaunches &graph) {
  Flight flight = flight_on(context, stream);
  for (const ptx::GraphLaunch &node : graph.kernels) {
    Shape shape = {{node.grid[0], node.grid[1], node.grid[2]},
                   {node.block[0], node.block[1], node.block[2]}};
    flight.launches.push_back(
        launch_of(context, node.function, shape, stream, flight.launches.size()));
  }
  refuse_unclear(exec, graph, &flight);
  return flight;
}

template <typename Real>
CUresult launch_graph(CUgraphExec exec, CUstream stream, Real real) {
  return launching(stream, real, [&](CUcontext context) {
    ptx::GraphLaunches graph = ptx::graph_launches(exec);
    graph.device_decides |= engine->device_launches_graphs;
    Flight flight = flight_of(context, exec, stream, graph);
    const ptx::Stream its = flight.stream;
    if (graph.device_decides) engine->counters.stop_counting(context, its);
    CUresult result = fly(&flight, real);
    if (graph.device_decides) engine->counters.uncounted_went(context, its);
    return result;
  });
}

/* Calls that make or change an executable graph. */
template <typename Real, typename Note>
CUresult change_graph(Real real, Note note) {
  if (!is_recording()) return real();
  std::lock_guard<std::recursive_mutex> hold(lock);
  Inside inside;
  CUresult result = real();
  if (result == CUDA_SUCCESS) note();
  return result;
}

void turn_profiler(bool on) {
  static std::atomic<bool> started{false};
  if (!is_recording() || started.exchange(on) == on) return;
  if (on)
    xpu_window_begin(XPU_MARKER_CUDA_PROFILER);
  else
    xpu_window_end(XPU_MARKER_CUDA_PROFILER);
}

template <typename Function>
Function real_function(Function, const char *name) {
  return reinterpret_cast<Function>(ptx::driver_function(name));
}

/* An older driver may lack a function that we define. */
#define NEEDS(name) \
  is_recording();   \
  if (!driver.name) return CUDA_ERROR_NOT_FOUND

/* The function of that name behind ours, found once. */
#define REAL(name)                                      \
  static const auto real = real_function(&name, #name); \
  if (!real) return CUDA_ERROR_NOT_FOUND

}  // namespace

/* ---- the driver's functions ----------------------------------------------------------------- */

#undef cuGetProcAddress

/* The driver starts in these two: its work is not the program's. */
HOOK CUresult cuInit(unsigned flags) {
  NEEDS(cuInit);
  if (!is_recording()) return driver.cuInit(flags);
  Inside inside;
  return driver.cuInit(flags);
}

HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  REAL(cuDevicePrimaryCtxRetain);
  if (!is_recording()) return real(context, device);
  Inside inside;
  return real(context, device);
}

HOOK CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  NEEDS(cuModuleLoadData);
  return load(image, module,
              [&](const void *code) { return driver.cuModuleLoadData(module, code); });
}

HOOK CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n,
                                 CUjit_option *options, void **values) {
  NEEDS(cuModuleLoadDataEx);
  return load(image, module, [&](const void *code) {
    return driver.cuModuleLoadDataEx(module, code, n, options, values);
  });
}

/* PTX takes the place of the fat binary. */
HOOK CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  NEEDS(cuModuleLoadFatBinary);
  return load(image, module, [&](const void *code) {
    return code == image ? driver.cuModuleLoadFatBinary(module, code)
                         : driver.cuModuleLoadData(module, code);
  });
}

HOOK CUresult cuModuleLoad(CUmodule *module, const char *path) {
  NEEDS(cuModuleLoad);
  std::string content = content_of(path);
  if (content.empty()) return driver.cuModuleLoad(module, path);
  return load(content.c_str(), module, [&](const void *code) {
    return code == content.c_str() ? driver.cuModuleLoad(module, path)
                                   : driver.cuModuleLoadData(module, code);
  });
}

HOOK CUresult cuModuleUnload(CUmodule module) {
  NEEDS(cuModuleUnload);
  if (!is_recording()) return driver.cuModuleUnload(module);
  std::lock_guard<std::recursive_mutex> hold(lock);
  unload(module);
  engine->programs.unloaded(module);
  return driver.cuModuleUnload(module);
}

HOOK CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options,
                                void **values, unsigned n, CUlibraryOption *library_options,
                                void **library_values, unsigned n_library) {
  NEEDS(cuLibraryLoadData);
  return load(image, library, [&](const void *code) {
    return driver.cuLibraryLoadData(library, code, options, values, n, library_options,
                                    library_values, n_library);
  });
}

HOOK CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options,
                                    void **values, unsigned n, CUlibraryOption *library_options,
                                    void **library_values, unsigned n_library) {
  NEEDS(cuLibraryLoadFromFile);
  std::string content = content_of(path);
  if (content.empty())
    return driver.cuLibraryLoadFromFile(library, path, options, values, n, library_options,
                                        library_values, n_library);
  return load(content.c_str(), library, [&](const void *code) {
    return code == content.c_str()
               ? driver.cuLibraryLoadFromFile(library, path, options, values, n, library_options,
                                              library_values, n_library)
               : driver.cuLibraryLoadData(library, code, options, values, n, library_options,
                                          library_values, n_library);
  });
}

/* A library has a module in each context. */
HOOK CUresult cuLibraryUnload(CUlibrary library) {
  NEEDS(cuLibraryUnload);
  CUmodule module;
  CUcontext popped;
  if (!is_recording()) return driver.cuLibraryUnload(library);
  std::lock_guard<std::recursive_mutex> hold(lock);
  for (CUcontext context : engine->counters.contexts()) {
    Inside inside;
    if (driver.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) continue;
    if (driver.cuLibraryGetModule(&module, library) == CUDA_SUCCESS) unload(module);
    driver.cuCtxPopCurrent_v2(&popped);
  }
  engine->programs.unloaded(library);
  return driver.cuLibraryUnload(library);
}

/* The texts may be linked to one another; the driver copies them. */
static CUresult link_text(const std::string &text, const std::function<CUresult(const char *)> &add,
                          const std::function<CUresult()> &real) {
  if (!is_recording()) return real();
  std::lock_guard<std::recursive_mutex> hold(lock);
  Inside inside;
  const char *counted = engine->programs.rewritten_part(text.c_str());
  return counted && add(counted) == CUDA_SUCCESS ? CUDA_SUCCESS : real();
}

HOOK CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                               const char *name, unsigned n, CUjit_option *options, void **values) {
  REAL(cuLinkAddData_v2);
  auto add = [&](const char *text, size_t bytes) {
    return real(state, type, const_cast<char *>(text), bytes, name, n, options, values);
  };
  if (type != CU_JIT_INPUT_PTX || !data) return add(static_cast<char *>(data), size);
  std::string text(static_cast<char *>(data), size);
  return link_text(
      text.c_str(), [&](const char *counted) { return add(counted, strlen(counted) + 1); },
      [&] { return add(static_cast<char *>(data), size); });
}

HOOK CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned n,
                               CUjit_option *options, void **values) {
  REAL(cuLinkAddFile_v2);
  static const auto add = real_function(&cuLinkAddData_v2, "cuLinkAddData_v2");
  auto file = [&] { return real(state, type, path, n, options, values); };
  std::string text = type == CU_JIT_INPUT_PTX && add ? content_of(path) : "";
  if (text.empty()) return file();
  return link_text(
      text,
      [&](const char *counted) {
        return add(state, type, const_cast<char *>(counted), strlen(counted) + 1, path, n, options,
                   values);
      },
      file);
}

/* A context's memory goes with it, and the driver may give its addresses and handles to others. */
HOOK CUresult cuCtxDestroy_v2(CUcontext context) {
  REAL(cuCtxDestroy_v2);
  if (!is_recording()) return real(context);
  std::lock_guard<std::recursive_mutex> hold(lock);
  Inside inside;
  engine->counters.finish();
  engine->counters.forget(context);
  engine->programs.forget_handles();
  return real(context);
}

/* The primary context may go: at once, or with its last user. */
template <typename Real>
static CUresult give_up(CUdevice device, Real real) {
  unsigned flags = 0;
  int active = 0;
  if (!is_recording()) return real(device);
  std::lock_guard<std::recursive_mutex> hold(lock);
  Inside inside;
  engine->counters.finish();
  CUresult result = real(device);
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active)
    return result;
  engine->counters.forget(device);
  engine->programs.forget_handles();
  return result;
}

HOOK CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  REAL(cuDevicePrimaryCtxReset_v2);
  return give_up(device, real);
}

HOOK CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  REAL(cuDevicePrimaryCtxRelease_v2);
  return give_up(device, real);
}

HOOK CUresult cuProfilerStart() {
  NEEDS(cuProfilerStart);
  turn_profiler(true);
  return driver.cuProfilerStart();
}

HOOK CUresult cuProfilerStop() {
  NEEDS(cuProfilerStop);
  turn_profiler(false);
  return driver.cuProfilerStop();
}

/* The variant of a call for programs whose default stream is the thread's own. */
static CUstream per_thread(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

#define LAUNCH_HOOK(name, stream_of)                                                               \
  HOOK CUresult name(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,             \
                     unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,    \
                     void **extra) {                                                               \
    REAL(name);                                                                                    \
    return launch(f, {{gx, gy, gz}, {bx, by, bz}}, stream_of(stream),                              \
                  [&] { return real(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra); }); \
  }

#define COOPERATIVE_HOOK(name, stream_of)                                                         \
  HOOK CUresult name(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,            \
                     unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params) { \
    REAL(name);                                                                                   \
    return launch(f, {{gx, gy, gz}, {bx, by, bz}}, stream_of(stream),                             \
                  [&] { return real(f, gx, gy, gz, bx, by, bz, shared, stream, params); });       \
  }

#define EX_HOOK(name, stream_of)                                                               \
  HOOK CUresult name(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {     \
    REAL(name);                                                                                \
    Shape shape = {{c->gridDimX, c->gridDimY, c->gridDimZ},                                    \
                   {c->blockDimX, c->blockDimY, c->blockDimZ}};                                \
    return launch(f, shape, stream_of(c->hStream), [&] { return real(c, f, params, extra); }); \
  }

#define GRAPH_HOOK(name, stream_of)                                                   \
  HOOK CUresult name(CUgraphExec exec, CUstream stream) {                             \
    REAL(name);                                                                       \
    return launch_graph(exec, stream_of(stream), [&] { return real(exec, stream); }); \
  }

extern "C" {
decltype(cuLaunchKernel) cuLaunchKernel_ptsz;
decltype(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
decltype(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
decltype(cuGraphLaunch) cuGraphLaunch_ptsz;
}

LAUNCH_HOOK(cuLaunchKernel, )
LAUNCH_HOOK(cuLaunchKernel_ptsz, per_thread)
COOPERATIVE_HOOK(cuLaunchCooperativeKernel, )
COOPERATIVE_HOOK(cuLaunchCooperativeKernel_ptsz, per_thread)
EX_HOOK(cuLaunchKernelEx, )
EX_HOOK(cuLaunchKernelEx_ptsz, per_thread)
GRAPH_HOOK(cuGraphLaunch, )
GRAPH_HOOK(cuGraphLaunch_ptsz, per_thread)

/* cuda.h calls only the newest of these by their own names. */
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
#undef cuGraphExecKernelNodeSetParams
HOOK CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
HOOK CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
HOOK CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *);
HOOK CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *);
extern "C" decltype(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;

static void instantiated(CUgraphExec exec, CUgraph graph, uint64_t flags) {
  ptx::graph_instantiated(exec, graph);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) engine->device_launches_graphs = true;
}

/* They begin with exec and graph. */
#define INSTANTIATE_HOOK(name, flags, declaration, ...)                 \
  HOOK CUresult name declaration {                                      \
    REAL(name);                                                         \
    return change_graph([&] { return real(exec, graph, __VA_ARGS__); }, \
                        [&] { instantiated(*exec, graph, flags); });    \
  }

INSTANTIATE_HOOK(cuGraphInstantiate, 0,
                 (CUgraphExec * exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes),
                 wrong, log, bytes)
INSTANTIATE_HOOK(cuGraphInstantiate_v2, 0,
                 (CUgraphExec * exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes),
                 wrong, log, bytes)
INSTANTIATE_HOOK(cuGraphInstantiateWithFlags, flags,
                 (CUgraphExec * exec, CUgraph graph, unsigned long long flags), flags)
INSTANTIATE_HOOK(cuGraphInstantiateWithParams, params->flags,
                 (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), params)
INSTANTIATE_HOOK(cuGraphInstantiateWithParams_ptsz, params->flags,
                 (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), params)

HOOK CUresult cuGraphExecDestroy(CUgraphExec exec) {
  REAL(cuGraphExecDestroy);
  return change_graph([&] { return real(exec); }, [&] { ptx::graph_destroyed(exec); });
}

HOOK CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *wrong,
                                CUgraphExecUpdateResult *how) {
  REAL(cuGraphExecUpdate);
  return change_graph([&] { return real(exec, graph, wrong, how); },
                      [&] { ptx::graph_updated(exec, graph); });
}

HOOK CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo *info) {
  REAL(cuGraphExecUpdate_v2);
  return change_graph([&] { return real(exec, graph, info); },
                      [&] { ptx::graph_updated(exec, graph); });
}

HOOK CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  REAL(cuGraphExecKernelNodeSetParams);
  return change_graph([&] { return real(exec, node, params); },
                      [&] { ptx::graph_node_set(exec, node, kernel_node_params(*params)); });
}

HOOK CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  REAL(cuGraphExecKernelNodeSetParams_v2);
  return change_graph([&] { return real(exec, node, params); },
                      [&] { ptx::graph_node_set(exec, node, *params); });
}

HOOK CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                       CUgraphNodeParams *params) {
  REAL(cuGraphExecNodeSetParams);
  return change_graph([&] { return real(exec, node, params); },
                      [&] {
                        if (params->type == CU_GRAPH_NODE_TYPE_KERNEL)
                          ptx::graph_node_set(exec, node, kernel_node_params(params->kernel));
                        else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
                          ptx::graph_child_set(exec, node, params->graph.graph);
                      });
}

HOOK CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 CUgraph child) {
  REAL(cuGraphExecChildGraphNodeSetParams);
  return change_graph([&] { return real(exec, node, child); },
                      [&] { ptx::graph_child_set(exec, node, child); });
}

HOOK CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  REAL(cuGraphNodeSetEnabled);
  return change_graph([&] { return real(exec, node, enabled); },
                      [&] { ptx::graph_node_enabled(exec, node, enabled != 0); });
}

/* ---- functions asked for by name ------------------------------------------------------------- */

/* Most programs find the driver's functions by these calls. */
HOOK CUresult cuGetProcAddress_v2(const char *, void **, int, cuuint64_t,
                                  CUdriverProcAddressQueryResult *);
HOOK CUresult cuGetProcAddress(const char *, void **, int, cuuint64_t);

struct Hook {
  const char *name;
  int since; /* the CUDA version from which on the name means this function */
  void *function;
};

static void *hook_of(const std::string &name, int version, bool thread_streams) {
#define AS(name, since, function) \
  { name, since, reinterpret_cast<void *>(&function) }
#define ENTRY(name) AS(#name, 0, name)
  static const Hook hooks[] = {
      ENTRY(cuGetProcAddress),
      AS("cuGetProcAddress", 12000, cuGetProcAddress_v2),
      ENTRY(cuInit),
      ENTRY(cuModuleLoad),
      ENTRY(cuModuleLoadData),
      ENTRY(cuModuleLoadDataEx),
      ENTRY(cuModuleLoadFatBinary),
      ENTRY(cuModuleUnload),
      ENTRY(cuLibraryLoadData),
      ENTRY(cuLibraryLoadFromFile),
      ENTRY(cuLibraryUnload),
      AS("cuLinkAddData", 0, cuLinkAddData_v2),
      AS("cuLinkAddFile", 0, cuLinkAddFile_v2),
      AS("cuCtxDestroy", 0, cuCtxDestroy_v2),
      ENTRY(cuDevicePrimaryCtxRetain),
      AS("cuDevicePrimaryCtxReset", 0, cuDevicePrimaryCtxReset_v2),
      AS("cuDevicePrimaryCtxRelease", 0, cuDevicePrimaryCtxRelease_v2),
      ENTRY(cuProfilerStart),
      ENTRY(cuProfilerStop),
      ENTRY(cuLaunchKernel),
      ENTRY(cuLaunchKernel_ptsz),
      ENTRY(cuLaunchCooperativeKernel),
      ENTRY(cuLaunchCooperativeKernel_ptsz),
      ENTRY(cuLaunchKernelEx),
      ENTRY(cuLaunchKernelEx_ptsz),
      ENTRY(cuGraphLaunch),
      ENTRY(cuGraphLaunch_ptsz),
      ENTRY(cuGraphInstantiate),
      AS("cuGraphInstantiate", 11000, cuGraphInstantiate_v2),
      AS("cuGraphInstantiate", 12000, cuGraphInstantiateWithFlags),
      ENTRY(cuGraphInstantiateWithFlags),
      ENTRY(cuGraphInstantiateWithParams),
      ENTRY(cuGraphInstantiateWithParams_ptsz),
      ENTRY(cuGraphExecChildGraphNodeSetParams),
      ENTRY(cuGraphExecDestroy),
      ENTRY(cuGraphExecUpdate),
      AS("cuGraphExecUpdate", 12000, cuGraphExecUpdate_v2),
      ENTRY(cuGraphExecKernelNodeSetParams),
      AS("cuGraphExecKernelNodeSetParams", 12000, cuGraphExecKernelNodeSetParams_v2),
      ENTRY(cuGraphExecNodeSetParams),
      ENTRY(cuGraphNodeSetEnabled),
  };
#undef ENTRY
#undef AS
  auto newest = [&](const std::string &wanted) {
    void *found = nullptr;
    for (const Hook &hook : hooks)
      if (wanted == hook.name && version >= hook.since) found = hook.function;
    return found;
  };
  void *found = thread_streams ? newest(name + "_ptsz") : nullptr;
  return found ? found : newest(name);
}

static void replace(CUresult result, const char *name, void **function, int version,
                    cuuint64_t flags) {
  if (result != CUDA_SUCCESS || !name || !function || !*function) return;
  bool thread_streams = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (void *hook = hook_of(name, version, thread_streams)) *function = hook;
}

HOOK CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
  REAL(cuGetProcAddress_v2);
  CUresult result = real(name, function, version, flags, status);
  replace(result, name, function, version, flags);
  return result;
}

HOOK CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  REAL(cuGetProcAddress);
  CUresult result = real(name, function, version, flags);
  replace(result, name, function, version, flags);
  return result;
}
