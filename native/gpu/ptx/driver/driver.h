/* SPDX-License-Identifier: Apache-2.0 */
/* The real driver's functions, found behind ours. */
#ifndef XPUPROF_PTX_DRIVER_H
#define XPUPROF_PTX_DRIVER_H

#include <cuda.h>
#include <cudaProfiler.h>

namespace ptx {

/* cuda.h gives some of these a suffix (cuMemAlloc is cuMemAlloc_v2); the names here are those that
 * the driver exports. */
#define XPU_DRIVER_FUNCTIONS(X) \
  X(cuCtxGetCurrent)            \
  X(cuCtxGetDevice)             \
  X(cuCtxPopCurrent_v2)         \
  X(cuCtxPushCurrent_v2)        \
  X(cuDeviceGetAttribute)       \
  X(cuDevicePrimaryCtxGetState) \
  X(cuDriverGetVersion)         \
  X(cuEventCreate)              \
  X(cuEventQuery)               \
  X(cuEventRecord)              \
  X(cuFuncGetModule)            \
  X(cuFuncGetName)              \
  X(cuInit)                     \
  X(cuKernelGetFunction)        \
  X(cuLaunchKernel)             \
  X(cuLibraryGetModule)         \
  X(cuLibraryLoadData)          \
  X(cuLibraryLoadFromFile)      \
  X(cuLibraryUnload)            \
  X(cuMemAllocHost_v2)          \
  X(cuMemAlloc_v2)              \
  X(cuMemGetInfo_v2)            \
  X(cuMemcpyDtoHAsync_v2)       \
  X(cuMemcpyHtoDAsync_v2)       \
  X(cuMemsetD32Async)           \
  X(cuMemsetD8Async)            \
  X(cuModuleGetFunction)        \
  X(cuModuleGetGlobal_v2)       \
  X(cuModuleLoad)               \
  X(cuModuleLoadData)           \
  X(cuModuleLoadDataEx)         \
  X(cuModuleLoadFatBinary)      \
  X(cuModuleUnload)             \
  X(cuPointerGetAttribute)      \
  X(cuProfilerStart)            \
  X(cuProfilerStop)             \
  X(cuStreamCreate)             \
  X(cuStreamGetCtx)             \
  X(cuStreamGetId)              \
  X(cuStreamIsCapturing)        \
  X(cuStreamSynchronize)        \
  X(cuStreamWaitEvent)          \
  X(cuThreadExchangeStreamCaptureMode)

struct Driver {
#define XPU_DECLARE(name) decltype(&::name) name;
  XPU_DRIVER_FUNCTIONS(XPU_DECLARE)
#undef XPU_DECLARE
};

extern Driver driver;

/* Looks all of them up. False, with the first that is missing, if the driver is older than 12.3;
 * the others are there. */
bool load_driver(const char **missing);

/* A function of the real driver by its exported name. */
void *driver_function(const char *name);

}  // namespace ptx

#endif
