/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the findings of the CUPTI callbacks into calls of the boundary ABI. Thread-safe. */
#ifndef XPUPROF_CUDA_RECORDER_H
#define XPUPROF_CUDA_RECORDER_H

#include <mutex>

#include "clock.h"
#include "completions.h"
#include "graphs.h"
#include "kernels.h"

/* One launching API call, from its callback. */
struct ApiCall {
  uint32_t correlation;
  uint64_t tsc_run; /* just before the call */
  CUcontext context;
  CUstream stream;
  bool per_thread_stream;
  const char *name; /* kernel name as CUPTI shows it, or NULL */
};

struct Shape {
  CUfunction function;
  uint32_t grid[3], block[3], shared; /* block 0: unknown */
};

class Recorder {
 public:
  /* `reason`: why launches are uninstrumented. */
  Recorder(bool sync, const char *reason);

  void call_begins(uint32_t correlation, uint32_t outermost, uint32_t innermost);
  void call_over(uint32_t correlation); /* also for a call that launched nothing */
  void launched(const ApiCall &call, const Shape &shape);
  void launched_on_devices(const ApiCall &call, const CUDA_LAUNCH_PARAMS *list, unsigned n);
  void graph_launched(const ApiCall &call, CUgraphExec exec);

  void kernel_done(const Completion &completion);
  void copied(uint32_t direction, uint64_t bytes, uint64_t start, uint64_t end, uint32_t stream);
  void dropped(uint64_t records);
  void read_clock();
  void wait_for_all(); /* launched so far */
  void finish();

  /* Held by callbacks at the end of API calls, while the driver and CUPTI are asked. Never taken
   * from inside the driver or from CUPTI's threads, which hold their own locks. */
  std::mutex lock;
  Kernels kernels;
  Graphs graphs;

 private:
  uint64_t run(const ApiCall &call, const Shape &shape, uint32_t device);
  void wait(const ApiCall &call, const std::vector<Completions::Expected> &launches);
  void expect(const ApiCall &call, const std::vector<Completions::Expected> &launches);
  void complete(const Completion &completion);
  uint32_t device_of(CUcontext context);
  uint32_t stream_id(const ApiCall &call);

  const bool sync_;
  const char *const reason_;
  std::unordered_map<CUcontext, uint32_t> devices_;
  std::mutex completions_lock_; /* guards the following; no CUDA call is made under it */
  CuptiClock clock_;
  Completions completions_;
  uint64_t unmatched_ = 0, dropped_ = 0, early_ticks_ = 0, timeless_ = 0;
};

#endif
