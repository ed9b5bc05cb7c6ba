/* SPDX-License-Identifier: Apache-2.0 */
/* libxpuprof_ptx.so stands in front of the CUDA driver (libcuda.so.1) in the library search path.
 * It defines the driver functions that load code and launch kernels (*_hooks.cpp), and depends on
 * the real driver for all others. The program must run as if we were not there: whatever fails
 * here, its own code is loaded and launched. */
#ifndef XPUPROF_PTX_HOOK_H
#define XPUPROF_PTX_HOOK_H

#include "recorder.h"

#define HOOK extern "C" __attribute__((visibility("default")))

namespace ptx {

template <typename Function>
Function real_function(Function, const char *name) {
  return reinterpret_cast<Function>(driver_function(name));
}

}  // namespace ptx

/* An older driver may lack a function that we define. */
#define NEEDS(name)    \
  ptx::is_recording(); \
  if (!ptx::driver.name) return CUDA_ERROR_NOT_FOUND

/* The function of that name behind ours, found once. */
#define REAL(name)                                           \
  static const auto real = ptx::real_function(&name, #name); \
  if (!real) return CUDA_ERROR_NOT_FOUND

/* cuda.h calls only the newest of these by their own names. */
#undef cuGetProcAddress
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
#undef cuGraphExecKernelNodeSetParams
HOOK CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
HOOK CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
HOOK CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *);
HOOK CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *);
extern "C" {
decltype(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
decltype(cuLaunchKernel) cuLaunchKernel_ptsz;
decltype(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
decltype(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
decltype(cuGraphLaunch) cuGraphLaunch_ptsz;
}

#endif
