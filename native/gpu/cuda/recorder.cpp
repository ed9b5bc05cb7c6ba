// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <stdio.h>

#include "xpuprof/boundary.h"

/* Matches completions of a call that launches on several devices; graph nodes are small numbers. */
static uint64_t device_key(uint32_t device) { return UINT64_C(1) << 63 | device; }

Recorder::Recorder(bool sync, const char *reason) : kernels(reason), sync_(sync), reason_(reason) {
  clock_.start();
}

void Recorder::read_clock() {
  std::lock_guard<std::mutex> hold(completions_lock_);
  clock_.read();
}

uint32_t Recorder::device_of(CUcontext context) {
  auto known = devices_.find(context);
  if (known != devices_.end()) return known->second;
  uint32_t device = 0;
  cupti.cuptiGetDeviceId(context, &device);
  return devices_[context] = device;
}

uint32_t Recorder::stream_id(const ApiCall &call) {
  uint32_t id = 0;
  cupti.cuptiGetStreamIdEx(call.context, call.stream, call.per_thread_stream, &id);
  return id;
}

static uint32_t dimensions(const Shape &shape) {
  for (int d = 2; d > 0; d--)
    if (shape.grid[d] > 1 || shape.block[d] > 1) return static_cast<uint32_t>(d) + 1;
  return 1;
}

/* Reports the boundary of one launch. The trace counts work-items: grid x block. */
uint64_t Recorder::run(const ApiCall &call, const Shape &shape, uint32_t device) {
  const KernelFacts &kernel = kernels.find(shape.function, call.name);
  xpu_launch launch = {};
  launch.kernel = kernel.id;
  launch.dimensions = dimensions(shape);
  for (int d = 0; d < 3; d++) {
    launch.local[d] = shape.block[d];
    launch.global[d] = static_cast<uint64_t>(shape.grid[d]) * (shape.block[d] ? shape.block[d] : 1);
  }
  launch.queue = stream_id(call);
  launch.device = device;
  launch.tsc_run = call.tsc_run;
  launch.reason = reason_;
  uint64_t number = xpu_kernel_run(&launch);
  xpu_resources resources = kernel.resources;
  resources.local_dynamic = shape.shared;
  xpu_launch_resources(number, &resources);
  return number;
}

void Recorder::call_begins(uint32_t correlation, uint32_t outermost, uint32_t innermost) {
  if (sync_) return;
  std::lock_guard<std::mutex> hold(completions_lock_);
  completions_.call_begins(correlation, outermost, innermost);
}

void Recorder::call_over(uint32_t correlation) {
  if (sync_) return;
  std::lock_guard<std::mutex> hold(completions_lock_);
  for (const Completion &early : completions_.call_ends(correlation)) complete(early);
}

void Recorder::expect(const ApiCall &call, const std::vector<Completions::Expected> &launches) {
  if (sync_) return;
  std::lock_guard<std::mutex> hold(completions_lock_);
  completions_.expect(call.correlation, launches.data(), launches.size());
  for (const Completion &early : completions_.call_ends(call.correlation)) complete(early);
}

void Recorder::launched(const ApiCall &call, const Shape &shape) {
  std::unique_lock<std::mutex> hold(lock);
  uint64_t number = run(call, shape, device_of(call.context));
  hold.unlock();
  expect(call, {{0, number, call.tsc_run}});
  if (sync_) wait(call, {{0, number, call.tsc_run}});
}

void Recorder::launched_on_devices(const ApiCall &call, const CUDA_LAUNCH_PARAMS *list,
                                   unsigned n) {
  std::vector<Completions::Expected> launches;
  for (unsigned i = 0; i < n; i++) {
    ApiCall part = call;
    part.stream = list[i].hStream;
    part.name = nullptr; /* CUPTI shows one name for the whole call */
    driver.cuStreamGetCtx(part.stream, &part.context);
    Shape shape = {list[i].function,
                   {list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ},
                   {list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ},
                   list[i].sharedMemBytes};
    std::unique_lock<std::mutex> hold(lock);
    uint32_t device = device_of(part.context);
    launches.push_back({device_key(device), run(part, shape, device), call.tsc_run});
    hold.unlock();
    if (sync_) wait(part, {launches.back()});
  }
  expect(call, launches);
}

void Recorder::graph_launched(const ApiCall &call, CUgraphExec exec) {
  std::unique_lock<std::mutex> hold(lock);
  std::vector<Completions::Expected> launches;
  uint32_t device = device_of(call.context);
  ApiCall part = call;
  part.name = nullptr;
  for (const GraphKernel &kernel : graphs.content(exec).kernels) {
    if (!kernel.enabled) continue;
    Shape shape = {kernel.function,
                   {kernel.grid[0], kernel.grid[1], kernel.grid[2]},
                   {kernel.block[0], kernel.block[1], kernel.block[2]},
                   kernel.shared};
    launches.push_back({kernel.node, run(part, shape, device), call.tsc_run});
  }
  hold.unlock();
  expect(call, launches);
  if (sync_) wait(call, launches);
}

/* Timer mode `sync`: the launch completes before the program continues. */
void Recorder::wait(const ApiCall &call, const std::vector<Completions::Expected> &launches) {
  CUstream stream = call.stream              ? call.stream
                    : call.per_thread_stream ? CU_STREAM_PER_THREAD
                                             : CU_STREAM_LEGACY;
  if (driver.cuStreamSynchronize(stream) != CUDA_SUCCESS) return;
  xpu_completion completion = {};
  completion.tsc_host = xpu_tsc();
  for (const Completions::Expected &launch : launches) {
    completion.launch = launch.launch;
    xpu_kernel_complete(&completion);
  }
}

void Recorder::wait_for_all() {
  std::unique_lock<std::mutex> hold(lock);
  std::unordered_map<CUcontext, uint32_t> used = devices_;
  hold.unlock();
  for (const auto &context : used) {
    CUcontext popped;
    if (driver.cuCtxPushCurrent_v2(context.first) != CUDA_SUCCESS) continue;
    driver.cuCtxSynchronize();
    driver.cuCtxPopCurrent_v2(&popped);
  }
}

void Recorder::kernel_done(const Completion &completion) {
  std::lock_guard<std::mutex> hold(completions_lock_);
  complete(completion);
}

void Recorder::complete(const Completion &completion) {
  const uint64_t keys[] = {completion.node, graphs.original_of(completion.node),
                           device_key(completion.device), 0};
  uint64_t launch, tsc_run;
  switch (completions_.match(completion, keys, 4, &launch, &tsc_run)) {
    case Completions::EARLY:
      return;
    case Completions::UNMATCHED:
      unmatched_++;
      return;
    case Completions::MATCHED:
      break;
  }
  xpu_completion record = {};
  record.launch = launch;
  if (completion.start && completion.start <= completion.end) {
    record.tsc_start = clock_.ticks(completion.start);
    record.tsc_end = clock_.ticks(completion.end);
  } else { /* CUPTI has none when its device memory for stamps is used up */
    timeless_++;
  }
  if (record.tsc_start && record.tsc_start < tsc_run && tsc_run - record.tsc_start > early_ticks_)
    early_ticks_ = tsc_run - record.tsc_start;
  xpu_kernel_complete(&record);
}

void Recorder::copied(uint32_t direction, uint64_t bytes, uint64_t start, uint64_t end,
                      uint32_t stream) {
  std::lock_guard<std::mutex> hold(completions_lock_);
  xpu_copy(direction, bytes, clock_.ticks(start), clock_.ticks(end), stream);
}

void Recorder::dropped(uint64_t records) {
  std::lock_guard<std::mutex> hold(completions_lock_);
  dropped_ += records;
}

static void meta(const char *key, const char *format, double value) {
  char text[48];
  snprintf(text, sizeof text, format, value);
  xpu_meta(key, text);
}

void Recorder::finish() {
  std::lock_guard<std::mutex> hold(completions_lock_);
  meta("clock_error_ns", "%.0f", clock_.error_ns());
  /* A kernel cannot start before its launch: CUPTI's error between the clocks of device and host is
   * at least this. */
  meta("device_clock_early_ticks", "%.0f", static_cast<double>(early_ticks_));
  meta("programs_that_launch", "%.0f", static_cast<double>(kernels.launching()));
  meta("kernels_without_launch", "%.0f", static_cast<double>(unmatched_));
  meta("launches_without_completion", "%.0f", static_cast<double>(completions_.open()));
  meta("kernels_without_times", "%.0f", static_cast<double>(timeless_));
  meta("activity_records_dropped", "%.0f", static_cast<double>(dropped_));
}
