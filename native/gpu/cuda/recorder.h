/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the findings of the CUPTI callbacks into calls of the boundary ABI. Thread-safe. */
#ifndef XPUPROF_CUDA_RECORDER_H
#define XPUPROF_CUDA_RECORDER_H

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "clock.h"
#include "completions.h"
#include "graphs.h"
#include "kernels.h"

/* One launching API call, from its callback. */
struct ApiCall {
  uint32_t correlation, outer[2]; /* as in Launched */
  uint64_t tsc_run;               /* just before the call */
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

  /* Around each launching call. What it launched is noted between the two, for the thread that
   * brings the completions: all the work of matching is done there. */
  void call_begins() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void call_ends();
  void launched(const ApiCall &call, const Shape &shape);
  void launched_on_devices(const ApiCall &call, const CUDA_LAUNCH_PARAMS *list, unsigned n);
  void graph_launched(const ApiCall &call, CUgraphExec exec);
  /* Their handles may be others' later. */
  void stream_ends(CUstream stream);
  void context_ends(CUcontext context);
  bool needs_runtime_calls() const { return runtime_calls_.load(std::memory_order_relaxed); }

  /* Records that CUPTI brings, together. */
  class Delivery {
   public:
    explicit Delivery(Recorder *recorder);
    void kernel_done(const Completion &completion) {
      recorder_->complete(completion, recorder_->quiet_);
    }
    void copied(uint32_t direction, uint64_t bytes, uint64_t start, uint64_t end, uint32_t stream);
    void dropped(uint64_t records) { recorder_->dropped_ += records; }

   private:
    Recorder *const recorder_;
    std::lock_guard<std::mutex> hold_;
  };
  void wait_for_all(); /* launched so far */
  void finish();

  /* Held by callbacks at the end of API calls, while the driver and CUPTI are asked. Never taken
   * from inside the driver or from CUPTI's threads, which hold their own locks. */
  std::mutex lock;
  Kernels kernels;
  Graphs graphs;

 private:
  uint64_t run(const ApiCall &call, const Shape &shape, uint32_t device);
  void wait(CUstream stream, bool per_thread, const std::vector<Launched> &launches);
  void expect(const Launched *launches, size_t n);
  void receive();
  /* `settled`: no call under way can have launched it. */
  void complete(const Completion &completion, bool settled);
  void not_found(const Completion &completion, bool settled);
  uint32_t device_of(CUcontext context);
  uint32_t stream_id(const ApiCall &call);

  const bool sync_;
  const char *const reason_;
  std::unordered_map<CUcontext, uint32_t> devices_;
  std::mutex streams_lock_; /* guards the next; no CUDA call is made under it */
  std::map<std::pair<CUstream, CUcontext>, uint32_t> streams_;
  std::mutex launched_lock_; /* guards the next; taken last */
  std::vector<Launched> launched_;
  /* Launching calls under way; from bit 32 on, how often the last of them ended. */
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> runtime_calls_{true};
  std::mutex completions_lock_; /* guards the following; launches never wait for it */
  CuptiClock clock_;
  Completions completions_;
  std::vector<Launched> received_;
  /* Completions whose calls have not returned, and the quiet moments when they came. */
  std::deque<std::pair<uint32_t, Completion>> early_;
  uint32_t moment_ = 0;
  bool quiet_ = false; /* no launching call was under way */
  uint64_t unmatched_ = 0, dropped_ = 0, early_ticks_ = 0, timeless_ = 0;
};

#endif
