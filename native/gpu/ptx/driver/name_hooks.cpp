// SPDX-License-Identifier: Apache-2.0
/* Functions asked for by name. */
#include <string>

#include "hook.h"

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
