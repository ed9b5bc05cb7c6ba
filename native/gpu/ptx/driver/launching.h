/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels and graphs: prepared, passed on to the driver and recorded. */
#ifndef XPUPROF_PTX_LAUNCHING_H
#define XPUPROF_PTX_LAUNCHING_H

#include <cuda.h>

namespace ptx {

struct Shape {
  unsigned grid[3], block[3];
};

/* The program's call, for the driver: a callable that outlives it. */
class Call {
 public:
  template <typename Function>
  Call(const Function &function)
      : function_(&function),
        call_([](const void *f) -> CUresult { return (*static_cast<const Function *>(f))(); }) {}
  CUresult operator()() const { return call_(function_); }

 private:
  const void *function_;
  CUresult (*call_)(const void *);
};

/* What the driver answers; a launch that it rejects is not recorded. */
CUresult launch(CUfunction function, const Shape &shape, CUstream stream, Call real);
CUresult launch_graph(CUgraphExec exec, CUstream stream, Call real);

}  // namespace ptx

#endif
