// SPDX-License-Identifier: Apache-2.0
#include "hook.h"
#include "launching.h"

using ptx::launch;
using ptx::launch_graph;
using ptx::Shape;

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

LAUNCH_HOOK(cuLaunchKernel, )
LAUNCH_HOOK(cuLaunchKernel_ptsz, per_thread)
COOPERATIVE_HOOK(cuLaunchCooperativeKernel, )
COOPERATIVE_HOOK(cuLaunchCooperativeKernel_ptsz, per_thread)
EX_HOOK(cuLaunchKernelEx, )
EX_HOOK(cuLaunchKernelEx_ptsz, per_thread)
GRAPH_HOOK(cuGraphLaunch, )
GRAPH_HOOK(cuGraphLaunch_ptsz, per_thread)
