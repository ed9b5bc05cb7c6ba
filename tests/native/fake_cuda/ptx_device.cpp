// SPDX-License-Identifier: Apache-2.0
/* Added to fake_cuda.cpp, it makes the stand-in driver execute kernels of modules loaded as PTX, by
 * the emulator, and gives it the calls that the PTX engine needs. A launched kernel is over when
 * its call returns; a graph's kernels run when their stream goes on, when something waits for them,
 * or when they were asked about often enough. PTX can be loaded as text, or linked; a fat binary is
 * the engine's to open. */
#include <cudaProfiler.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "emulator.h"
#include "objects.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using emulator::Module;

struct CUlinkState_st {
  std::string text;
  Elf64_Ehdr image; /* what is linked looks like machine code */
};
static std::map<const void *, std::string> linked;

extern "C" void *ptx_load(const char *image) {
  auto known = linked.find(image);
  if (known == linked.end() && memcmp(image, ELFMAG, SELFMAG) == 0) return nullptr;
  try {
    return new Module(known == linked.end() ? image : known->second);
  } catch (const std::exception &) {
    return nullptr; /* machine code, as far as this driver knows */
  }
}

static std::map<std::string, Module *> left; /* by text, which also names our variable */
extern "C" void ptx_unloaded(const char *image, void *module) {
  left[image] = static_cast<Module *>(module);
}
extern "C" void *ptx_again(const char *image) {
  auto known = memcmp(image, ELFMAG, SELFMAG) == 0 ? left.end() : left.find(image);
  if (known == left.end()) return nullptr;
  Module *found = known->second;
  const size_t at = known->first.find("xpuprof_counters_");
  size_t bytes = 0;
  if (at != std::string::npos) {
    const std::string name = known->first.substr(at, strlen("xpuprof_counters_") + 32);
    if (void *variable = found->variable(name.c_str(), &bytes)) memset(variable, 0, bytes);
  }
  left.erase(known);
  return found;
}

/* ---- kernels of graphs ---------------------------------------------------------------------- */

struct Waiting {
  size_t number;
  CUstream stream;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel;
};
struct CUevent_st {
  size_t number; /* of the last kernel that it stands behind */
  CUstream stream;
};
static std::vector<Waiting> waiting;
static size_t last_number;

static void run_now(const CUDA_KERNEL_NODE_PARAMS_v2 &kernel) {
  CUfunction f = kernel.func ? kernel.func : reinterpret_cast<CUfunction>(kernel.kern);
  if (f->kernel_of) f = f->kernel_of;
  if (auto module = static_cast<Module *>(f->module->ptx))
    module->launch(f->name,
                   {{kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ},
                    {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ},
                    kernel.sharedMemBytes},
                   kernel.kernelParams, nullptr);
}

static void catch_up(CUstream stream, size_t number) {
  auto due = [&](const Waiting &one) { return one.stream == stream && one.number <= number; };
  for (const Waiting &one : waiting)
    if (due(one)) run_now(one.kernel);
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), due), waiting.end());
}
static void catch_up(CUstream stream) { catch_up(fake_stream(stream), last_number); }

extern "C" void ptx_run_later(CUstream stream, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel) {
  waiting.push_back({++last_number, stream, *kernel});
}

extern "C" void ptx_run(CUstream stream, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel) {
  catch_up(stream);
  run_now(*kernel);
}

extern "C" void ptx_catch_up(CUstream stream) { catch_up(stream); }

/* ---- modules -------------------------------------------------------------------------------- */

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *,
                                   void **) {
  return cuModuleLoadData(module, image);
}
EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  *module = new CUmod_st{nullptr, 0, static_cast<const char *>(image), 0, nullptr};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleLoad(CUmodule *, const char *) { return CUDA_ERROR_FILE_NOT_FOUND; }
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module,
                                     const char *name) {
  void *found = module->ptx ? static_cast<Module *>(module->ptx)->variable(name, bytes) : nullptr;
  *at = reinterpret_cast<CUdeviceptr>(found);
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr) {
  if (which != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int *>(value) = 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  if (function->kernel_of) return CUDA_ERROR_INVALID_HANDLE;
  *module = function->module;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *, void **,
                                  unsigned, CUlibraryOption *, void **, unsigned) {
  return cuModuleLoadData(reinterpret_cast<CUmodule *>(library), image);
}
EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *, const char *, CUjit_option *, void **, unsigned,
                                      CUlibraryOption *, void **, unsigned) {
  return CUDA_ERROR_FILE_NOT_FOUND;
}
EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  return cuModuleUnload(reinterpret_cast<CUmodule>(library));
}
EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  CUfunction function;
  cuModuleGetFunction(&function, reinterpret_cast<CUmodule>(library), name);
  *kernel = reinterpret_cast<CUkernel>(new CUfunc_st{name, function->module, {1, 1, 1}, function});
  return CUDA_SUCCESS;
}
EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel)->kernel_of;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
#undef cuGetProcAddress
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *) {
  const std::string plain = name;
  *function = nullptr;
  if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    *function = dlsym(RTLD_DEFAULT, (plain + "_ptsz").c_str());
  for (const char *suffix : {"_v2", ""})
    if (!*function) *function = dlsym(RTLD_DEFAULT, (plain + suffix).c_str());
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- linking -------------------------------------------------------------------------------- */

#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile
EXPORT CUresult cuLinkCreate_v2(unsigned, CUjit_option *, void **, CUlinkState *state) {
  *state = new CUlinkState_st{};
  memcpy((*state)->image.e_ident, ELFMAG, SELFMAG);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t,
                                 const char *, unsigned, CUjit_option *, void **) {
  if (type != CU_JIT_INPUT_PTX) return CUDA_ERROR_INVALID_VALUE;
  state->text = static_cast<const char *>(data);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned,
                                 CUjit_option *, void **) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  if (type != CU_JIT_INPUT_PTX) return CUDA_ERROR_INVALID_VALUE;
  state->text.assign(std::istreambuf_iterator<char>(file), {});
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes) {
  linked[ *image = &state->image] = state->text;
  *bytes = sizeof state->image;
  return CUDA_SUCCESS;
}

/* ---- contexts, streams, events -------------------------------------------------------------- */

static CUcontext current_context() {
  CUcontext context = nullptr;
  cuStreamGetCtx(nullptr, &context);
  return context;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current_context();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  *device = current_context()->device;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice) {
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWaitEvent(CUstream, CUevent event, unsigned) {
  catch_up(event->stream, event->number);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
  *id = reinterpret_cast<uintptr_t>(fake_stream(stream));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = new CUevent_st{0, nullptr};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  *event = {last_number, fake_stream(stream)};
  return CUDA_SUCCESS;
}
/* As driver 580 was seen to do: when the program exits, the driver ends before those who registered
 * with `atexit` before cuInit. */
static bool ended;
extern "C" void ptx_starts() {
  atexit([] { ended = true; });
}
/* The device takes its time: longer than one call of the program. */
EXPORT CUresult cuEventQuery(CUevent event) {
  if (ended) return CUDA_ERROR_DEINITIALIZED;
  static int asked;
  for (const Waiting &one : waiting)
    if (one.stream == event->stream && one.number <= event->number) {
      if (++asked % 3 == 0) catch_up(one.stream, one.number);
      return CUDA_ERROR_NOT_READY;
    }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuProfilerStart() { return CUDA_SUCCESS; }
EXPORT CUresult cuProfilerStop() { return CUDA_SUCCESS; }

/* ---- memory --------------------------------------------------------------------------------- */

EXPORT CUresult cuMemAllocHost_v2(void **at, size_t bytes) {
  *at = malloc(bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *all) {
  *free_bytes = *all = size_t{1} << 30;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t n, CUstream stream) {
  catch_up(stream);
  memset(reinterpret_cast<void *>(at), value, n);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t n, CUstream stream) {
  catch_up(stream);
  for (size_t i = 0; i < n; i++) reinterpret_cast<unsigned *>(at)[i] = value;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream) {
  catch_up(stream);
  memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (ended) return CUDA_ERROR_DEINITIALIZED;
  catch_up(stream);
  memcpy(to, reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}

/* Memory of the primary context is overwritten when it goes, as if it were another's. */
using Areas = std::vector<std::pair<CUdeviceptr, size_t>>;
static Areas allocated, gone;
static bool is_active = true;
extern "C" void ptx_allocated(CUdeviceptr at, size_t bytes) { allocated.push_back({at, bytes}); }
EXPORT CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice) {
  gone.swap(allocated);
  for (auto [at, bytes] : gone) memset(reinterpret_cast<void *>(at), 0xa5, bytes);
  is_active = false;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *active) {
  *active = is_active;
  return CUDA_SUCCESS;
}
/* How much of the memory that went was changed afterwards. */
EXPORT size_t fake_changed_since_reset() {
  size_t changed = 0;
  for (auto [at, bytes] : gone)
    for (size_t i = 0; i < bytes; i++) changed += reinterpret_cast<unsigned char *>(at)[i] != 0xa5;
  return changed;
}
