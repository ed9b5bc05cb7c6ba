// SPDX-License-Identifier: Apache-2.0
/* Code that is loaded, contexts that go, and the profiler's marks. */
#include <string.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>

#include "hook.h"

using ptx::driver;
using ptx::Inside;
using ptx::is_recording;
using ptx::recorder;
using ptx::recorder_lock;

namespace {

/* `real` loads an image into a handle. */
template <typename Handle, typename Real>
CUresult load(const void *image, Handle *handle, Real real) {
  if (!is_recording() || !image) return real(image);
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  Inside inside;
  std::string why;
  if (const char *text = recorder->programs.rewritten(image, &why)) {
    if (real(text) == CUDA_SUCCESS) return CUDA_SUCCESS;
    why = "the driver rejected its PTX with counters";
  }
  CUresult result = real(image);
  if (result == CUDA_SUCCESS) recorder->programs.loaded_as_it_is(*handle, why);
  return result;
}

/* A file of PTX or machine code, as memory. */
std::string content_of(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void unload(CUmodule module) {
  Inside inside;
  for (CUdeviceptr slot : recorder->programs.slots_in(module)) recorder->counters.forget(slot);
}

void turn_profiler(bool on) {
  static std::atomic<bool> started{false};
  if (!is_recording() || started.exchange(on) == on) return;
  if (on)
    xpu_window_begin(XPU_MARKER_CUDA_PROFILER);
  else
    xpu_window_end(XPU_MARKER_CUDA_PROFILER);
}

}  // namespace

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
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  unload(module);
  recorder->programs.unloaded(module);
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
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  for (CUcontext context : recorder->counters.contexts()) {
    Inside inside;
    if (driver.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) continue;
    if (driver.cuLibraryGetModule(&module, library) == CUDA_SUCCESS) unload(module);
    driver.cuCtxPopCurrent_v2(&popped);
  }
  recorder->programs.unloaded(library);
  return driver.cuLibraryUnload(library);
}

/* The texts may be linked to one another; the driver copies them. */
static CUresult link_text(const std::string &text, const std::function<CUresult(const char *)> &add,
                          const std::function<CUresult()> &real) {
  if (!is_recording()) return real();
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  Inside inside;
  const char *counted = recorder->programs.rewritten_part(text.c_str());
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
  static const auto add = ptx::real_function(&cuLinkAddData_v2, "cuLinkAddData_v2");
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
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  Inside inside;
  recorder->counters.finish();
  recorder->counters.forget(context);
  recorder->programs.forget_handles();
  return real(context);
}

/* The primary context may go: at once, or with its last user. */
template <typename Real>
static CUresult give_up(CUdevice device, Real real) {
  unsigned flags = 0;
  int active = 0;
  if (!is_recording()) return real(device);
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  Inside inside;
  recorder->counters.finish();
  CUresult result = real(device);
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active)
    return result;
  recorder->counters.forget(device);
  recorder->programs.forget_handles();
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
