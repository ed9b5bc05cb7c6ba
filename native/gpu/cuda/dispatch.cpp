// SPDX-License-Identifier: Apache-2.0
#include "dispatch.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <initializer_list>

Cupti cupti;
Driver driver;

static void *open_cupti() {
  const char *chosen = getenv(XPU_ENV_CUPTI);
  if (chosen && *chosen) return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
  for (const char *name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <typename Function>
static bool look_up(void *library, const char *name, Function *function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

int load_cupti(const char **why) {
  void *library = open_cupti();
  if (!library) {
    *why = dlerror();
    return 0;
  }
#define XPU_LOOK_UP(name)                                                  \
  cupti.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (!cupti.name) {                                                       \
    *why = "CUPTI lacks " #name;                                           \
    return 0;                                                              \
  }
  XPU_CUPTI_FUNCTIONS(XPU_LOOK_UP)
#undef XPU_LOOK_UP
  look_up(library, "cuptiActivityFlushPeriod", &cupti.cuptiActivityFlushPeriod);
  look_up(library, "cuptiActivityRegisterTimestampCallback",
          &cupti.cuptiActivityRegisterTimestampCallback);
  return 1;
}

int load_driver(const char **why) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *why = dlerror();
    return 0;
  }
#define XPU_NEEDED(name)                        \
  if (!look_up(library, #name, &driver.name)) { \
    *why = "the CUDA driver lacks " #name;      \
    return 0;                                   \
  }
  XPU_NEEDED(cuCtxPopCurrent_v2)
  XPU_NEEDED(cuCtxPushCurrent_v2)
  XPU_NEEDED(cuCtxSynchronize)
  XPU_NEEDED(cuDriverGetVersion)
  XPU_NEEDED(cuFuncGetAttribute)
  XPU_NEEDED(cuGraphChildGraphNodeGetGraph)
  XPU_NEEDED(cuGraphGetEdges)
  XPU_NEEDED(cuGraphGetNodes)
  XPU_NEEDED(cuGraphKernelNodeGetParams_v2)
  XPU_NEEDED(cuGraphNodeGetType)
  XPU_NEEDED(cuStreamGetCtx)
  XPU_NEEDED(cuStreamIsCapturing)
  XPU_NEEDED(cuStreamSynchronize)
  XPU_NEEDED(cuThreadExchangeStreamCaptureMode)
#undef XPU_NEEDED
  look_up(library, "cuFuncGetName", &driver.cuFuncGetName);
  look_up(library, "cuKernelGetFunction", &driver.cuKernelGetFunction);
  return 1;
}
