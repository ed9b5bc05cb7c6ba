/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's and CUPTI's functions, looked up at run time: the library must load, and do no harm,
 * on machines that have neither. Order for CUPTI: XPUPROF_CUPTI (the launcher sets it to the
 * package it found), then the system's. The driver is the one the program has loaded. */
#ifndef XPUPROF_CUDA_DISPATCH_H
#define XPUPROF_CUDA_DISPATCH_H

#include <cuda.h>
#include <cupti.h>

#define XPU_ENV_CUPTI "XPUPROF_CUPTI"

/* Every required CUPTI function. */
#define XPU_CUPTI_FUNCTIONS(X)         \
  X(cuptiActivityDisable)              \
  X(cuptiActivityEnable)               \
  X(cuptiActivityFlushAll)             \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiEnableCallback)               \
  X(cuptiEnableDomain)                 \
  X(cuptiGetCallbackName)              \
  X(cuptiGetDeviceId)                  \
  X(cuptiGetGraphNodeId)               \
  X(cuptiGetResultString)              \
  X(cuptiGetStreamIdEx)                \
  X(cuptiGetTimestamp)                 \
  X(cuptiGetVersion)                   \
  X(cuptiSubscribe)

struct Cupti {
#define XPU_DECLARE(name) decltype(&::name) name;
  XPU_CUPTI_FUNCTIONS(XPU_DECLARE)
#undef XPU_DECLARE
  decltype(&::cuptiActivityFlushPeriod) cuptiActivityFlushPeriod; /* from CUDA 11.1 on; may be 0 */
  decltype(&::cuptiActivityRegisterTimestampCallback)
      cuptiActivityRegisterTimestampCallback; /* from CUDA 11.6 on; may be 0 */
};

/* Signatures as the driver exports them under these exact names (cuda.h renames some). */
struct Driver {
  CUresult (*cuCtxPopCurrent_v2)(CUcontext *);
  CUresult (*cuCtxPushCurrent_v2)(CUcontext);
  CUresult (*cuCtxSynchronize)();
  CUresult (*cuDriverGetVersion)(int *);
  CUresult (*cuFuncGetAttribute)(int *, CUfunction_attribute, CUfunction);
  CUresult (*cuFuncGetName)(const char **, CUfunction); /* from 12.3 on; may be 0 */
  CUresult (*cuGraphChildGraphNodeGetGraph)(CUgraphNode, CUgraph *);
  CUresult (*cuGraphGetEdges)(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
  CUresult (*cuGraphGetNodes)(CUgraph, CUgraphNode *, size_t *);
  CUresult (*cuGraphKernelNodeGetParams_v2)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2 *);
  CUresult (*cuGraphNodeGetType)(CUgraphNode, CUgraphNodeType *);
  CUresult (*cuKernelGetFunction)(CUfunction *, CUkernel); /* from 12.0 on; may be 0 */
  CUresult (*cuStreamGetCtx)(CUstream, CUcontext *);
  CUresult (*cuStreamIsCapturing)(CUstream, CUstreamCaptureStatus *);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *);
};

extern Cupti cupti;
extern Driver driver;

/* 0 when a library or a function is missing; `why` then names it. */
int load_cupti(const char **why);
int load_driver(const char **why);

#endif
