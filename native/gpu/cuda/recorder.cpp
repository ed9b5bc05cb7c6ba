// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <stdio.h>

#include <algorithm>
#include <iterator>

#include "xpuprof/boundary.h"

/* Matches completions of a call that launches on several devices; graph nodes are small numbers. */
static uint64_t device_key(uint32_t device) { return UINT64_C(1) << 63 | device; }

Recorder::Recorder(bool sync, const char *reason) : kernels(reason), sync_(sync), reason_(reason) {
  clock_.start();
}

uint32_t Recorder::device_of(CUcontext context) {
  auto known = devices_.find(context);
  if (known != devices_.end()) return known->second;
  uint32_t device = 0;
  cupti.cuptiGetDeviceId(context, &device);
  return devices_[context] = device;
}

/* CUPTI takes its time to answer. A thread's own default stream has no handle of its own. */
uint32_t Recorder::stream_id(const ApiCall &call) {
  uint32_t id = 0;
  const auto ask = [&] {
    cupti.cuptiGetStreamIdEx(call.context, call.stream, call.per_thread_stream, &id);
    return id;
  };
  if (call.stream == CU_STREAM_PER_THREAD || (call.per_thread_stream && !call.stream)) return ask();
  {
    std::lock_guard<std::mutex> hold(streams_lock_);
    auto known = streams_.find({call.stream, call.context});
    if (known != streams_.end()) return known->second;
  }
  ask();
  std::lock_guard<std::mutex> hold(streams_lock_);
  return streams_[{call.stream, call.context}] = id;
}

void Recorder::stream_ends(CUstream stream) {
  std::lock_guard<std::mutex> hold(streams_lock_);
  auto first = streams_.lower_bound({stream, nullptr}), last = first;
  while (last != streams_.end() && last->first.first == stream) ++last;
  streams_.erase(first, last);
}

void Recorder::context_ends(CUcontext context) {
  std::lock_guard<std::mutex> hold(streams_lock_);
  for (auto it = streams_.begin(); it != streams_.end();)
    it = it->first.second == context ? streams_.erase(it) : std::next(it);
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

static Launched of(const ApiCall &call, uint64_t key, uint64_t number) {
  return {call.correlation, {call.outer[0], call.outer[1]}, key, number, call.tsc_run};
}

void Recorder::expect(const Launched *launches, size_t n) {
  if (sync_) return;
  std::lock_guard<std::mutex> hold(launched_lock_);
  launched_.insert(launched_.end(), launches, launches + n);
}

void Recorder::launched(const ApiCall &call, const Shape &shape) {
  std::unique_lock<std::mutex> hold(lock);
  const Launched launched = of(call, 0, run(call, shape, device_of(call.context)));
  hold.unlock();
  expect(&launched, 1);
  if (sync_) wait(call.stream, call.per_thread_stream, {launched});
}

void Recorder::launched_on_devices(const ApiCall &call, const CUDA_LAUNCH_PARAMS *list,
                                   unsigned n) {
  std::vector<Launched> launches;
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
    launches.push_back(of(part, device_key(device), run(part, shape, device)));
    hold.unlock();
    if (sync_) wait(part.stream, part.per_thread_stream, {launches.back()});
  }
  expect(launches.data(), launches.size());
}

void Recorder::graph_launched(const ApiCall &call, CUgraphExec exec) {
  std::unique_lock<std::mutex> hold(lock);
  std::vector<Launched> launches;
  uint32_t device = device_of(call.context);
  ApiCall part = call;
  part.name = nullptr;
  for (const GraphKernel &kernel : graphs.content(exec).kernels) {
    if (!kernel.enabled) continue;
    Shape shape = {kernel.function,
                   {kernel.grid[0], kernel.grid[1], kernel.grid[2]},
                   {kernel.block[0], kernel.block[1], kernel.block[2]},
                   kernel.shared};
    launches.push_back(of(part, kernel.node, run(part, shape, device)));
  }
  hold.unlock();
  expect(launches.data(), launches.size());
  if (sync_) wait(call.stream, call.per_thread_stream, launches);
}

/* Timer mode `sync`: the launch completes before the program continues. */
void Recorder::wait(CUstream stream, bool per_thread, const std::vector<Launched> &launches) {
  if (!stream) stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (driver.cuStreamSynchronize(stream) != CUDA_SUCCESS) return;
  xpu_completion completion = {};
  completion.tsc_host = xpu_tsc();
  for (const Launched &launch : launches) {
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

Recorder::Delivery::Delivery(Recorder *recorder)
    : recorder_(recorder), hold_(recorder->completions_lock_) {
  recorder_->clock_.read();
  recorder_->receive();
}

/* In one step: a call that begins meanwhile belongs to the next moment. */
void Recorder::call_ends() {
  uint64_t now = calls_.load(std::memory_order_relaxed), next;
  do {
    const bool last = static_cast<uint32_t>(now) == 1;
    next = now - 1 + (last ? UINT64_C(1) << 32 : 0);
  } while (!calls_.compare_exchange_weak(now, next, std::memory_order_release));
}

enum : size_t { MOST_EARLY = 100000 };

/* What was launched so far. What completed before a moment at which no call was under way, and is
 * not in the list after it, was launched by no call. */
void Recorder::receive() {
  const uint64_t calls = calls_.load(std::memory_order_acquire);
  moment_ = static_cast<uint32_t>(calls >> 32);
  quiet_ = static_cast<uint32_t>(calls) == 0;
  received_.clear();
  {
    std::lock_guard<std::mutex> hold(launched_lock_);
    received_.swap(launched_);
  }
  for (const Launched &launched : received_) completions_.expect(launched);
  std::deque<std::pair<uint32_t, Completion>> early;
  early.swap(early_);
  for (const auto &[moment, completion] : early) complete(completion, quiet_ || moment != moment_);
}

/* It is kept for a call that has not returned, if there may be one. */
void Recorder::not_found(const Completion &completion, bool settled) {
  if (!settled) early_.emplace_back(moment_, completion);
  if (settled || early_.size() > MOST_EARLY) unmatched_++;
  if (early_.size() > MOST_EARLY) early_.pop_front();
}

void Recorder::complete(const Completion &completion, bool settled) {
  const uint64_t keys[] = {completion.node, graphs.original_of(completion.node),
                           device_key(completion.device), 0};
  Launched launched;
  if (!completions_.match(completion, keys, 4, &launched)) return not_found(completion, settled);
  if (completions_.carry_the_drivers_id()) runtime_calls_.store(false, std::memory_order_relaxed);
  xpu_completion record = {};
  record.launch = launched.launch;
  if (completion.start && completion.start <= completion.end) {
    record.tsc_start = clock_.ticks(completion.start);
    record.tsc_end = clock_.ticks(completion.end);
  } else { /* CUPTI has none when its device memory for stamps is used up */
    timeless_++;
  }
  if (record.tsc_start && record.tsc_start < launched.tsc_run)
    early_ticks_ = std::max(early_ticks_, launched.tsc_run - record.tsc_start);
  xpu_kernel_complete(&record);
}

void Recorder::Delivery::copied(uint32_t direction, uint64_t bytes, uint64_t start, uint64_t end,
                                uint32_t stream) {
  const CuptiClock &clock = recorder_->clock_;
  xpu_copy(direction, bytes, clock.ticks(start), clock.ticks(end), stream);
}

static void meta(const char *key, const char *format, double value) {
  char text[48];
  snprintf(text, sizeof text, format, value);
  xpu_meta(key, text);
}

void Recorder::finish() {
  const Delivery last(this);
  unmatched_ += early_.size();
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
