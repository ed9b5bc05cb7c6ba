/* SPDX-License-Identifier: Apache-2.0 */
/* What the handles of the stand-in driver point to. */
#ifndef XPUPROF_FAKE_CUDA_OBJECTS_H
#define XPUPROF_FAKE_CUDA_OBJECTS_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include <map>
#include <string>
#include <vector>

struct CUctx_st {
  uint32_t id;
  int device;
};
struct CUmod_st {
  CUcontext context;
  uint32_t id;
  const char *cubin;
  size_t size;
  void *ptx; /* what executes its text; NULL: its kernels compute nothing */
};
struct CUfunc_st {
  std::string name;
  CUmodule module;
  int block[3];
  CUfunc_st *kernel_of; /* a CUkernel: its function */
};
struct CUgraphNode_st {
  uint64_t id;
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel;
  CUgraph child;
  std::vector<CUgraphNode> after;
  CUgraphNode original;
  bool enabled;
};
struct CUgraph_st {
  std::vector<CUgraphNode> nodes;
};
struct CUgraphExec_st {
  CUgraph own;
  std::map<CUgraphNode, CUgraphNode> copy_of;
};
struct CUstream_st {
  CUcontext context;
  uint32_t id;
  CUgraph capture;
  CUgraphNode last_captured;
  uint64_t free_at;
};

/* Defined by ptx_device.cpp, which executes PTX; absent where tests need launches only. */
extern "C" __attribute__((weak)) void ptx_starts(void);
extern "C" __attribute__((weak)) void *ptx_load(const char *image);
/* A module that is unloaded leaves its addresses to the next one of the same text. */
extern "C" __attribute__((weak)) void *ptx_again(const char *image);
extern "C" __attribute__((weak)) void ptx_unloaded(const char *image, void *module);
extern "C" __attribute__((weak)) void ptx_run(CUstream stream,
                                              const CUDA_KERNEL_NODE_PARAMS_v2 *kernel);
/* A graph's kernel: when its stream goes on, or something waits for it. */
extern "C" __attribute__((weak)) void ptx_run_later(CUstream stream,
                                                    const CUDA_KERNEL_NODE_PARAMS_v2 *kernel);
extern "C" __attribute__((weak)) void ptx_catch_up(CUstream stream);
extern "C" __attribute__((weak)) void ptx_allocated(CUdeviceptr at, size_t bytes);

/* What a handle stands for, in the current context. */
extern "C" CUstream fake_stream(CUstream handle);

#endif
