// SPDX-License-Identifier: Apache-2.0
#include "device/clock.hpp"

#include <time.h>

#include <algorithm>

namespace layer {

static constexpr double refresh_s = 0.2;
static constexpr double max_rate_error = 20e-6;  // what two anchors must give to be accepted
static constexpr int tries = 16;

namespace {

// A moment on the system's clock and on ours.
struct Reading {
  uint64_t tsc;
  double ns;
  static Reading now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return {xpu_tsc(), (double)t.tv_sec * 1e9 + (double)t.tv_nsec};
  }
};

// A program's start-up takes longer than it takes to know the rate.
const Reading loaded = Reading::now();

// Ticks per nanosecond by the system's clock, over the process's life so far.
double host_rate() {
  constexpr double least_ns = 2e6;
  Reading now = Reading::now();
  while (now.ns - loaded.ns < least_ns) now = Reading::now();
  return (double)(now.tsc - loaded.tsc) / (now.ns - loaded.ns);
}

}  // namespace

DeviceClock::Anchor DeviceClock::sample_timer(cl_device_id device) const {
  Anchor anchor;
  cl_ulong device_ns = 0, host_ns = 0;
  uint64_t before = xpu_tsc();
  if (!next.clGetDeviceAndHostTimer ||
      next.clGetDeviceAndHostTimer(device, &device_ns, &host_ns) != CL_SUCCESS || !device_ns)
    return anchor;
  uint64_t after = xpu_tsc();
  return {before + (after - before) / 2, after - before + 1, device_ns};
}

// Without such a timer: the end of a marker lies between two of our stamps.
static DeviceClock::Anchor marker(cl_command_queue queue) {
  DeviceClock::Anchor anchor;
  cl_event event = nullptr;
  cl_ulong device_ns = 0;
  uint64_t before = xpu_tsc();
  if (next.clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event) != CL_SUCCESS) return anchor;
  next.clFlush(queue);
  next.clWaitForEvents(1, &event);
  uint64_t after = xpu_tsc();
  if (next.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof device_ns, &device_ns,
                                   nullptr) == CL_SUCCESS &&
      device_ns)
    anchor = {before + (after - before) / 2, after - before + 1, device_ns};
  next.clReleaseEvent(event);
  return anchor;
}

// The narrowest of some, or the first that is narrow enough.
template <class Sample>
static DeviceClock::Anchor narrowest(uint64_t enough, Sample &&sample) {
  DeviceClock::Anchor best;
  for (int i = 0; i < tries && !(best.width && best.width <= enough); i++) {
    const DeviceClock::Anchor anchor = sample();
    if (anchor.width && (!best.width || anchor.width < best.width)) best = anchor;
  }
  return best;
}

DeviceClock::Anchor DeviceClock::sample(const Queue &queue) const {
  // Each wakes a thread of the device.
  const uint64_t enough = 2 * first_.width;
  const cl_device_id device = queue.device->handle;
  const Anchor best = narrowest(enough, [&] { return sample_timer(device); });
  if (best.width) return best;
  cl_int error = CL_SUCCESS;
  cl_command_queue own = next.clCreateCommandQueue(queue.context->handle, queue.device->handle,
                                                   CL_QUEUE_PROFILING_ENABLE, &error);
  if (!own) return best;
  const Anchor of_marker = narrowest(enough, [&] { return marker(own); });
  next.clReleaseCommandQueue(own);
  return of_marker;
}

void DeviceClock::refresh(const Queue &queue) {
  if (!rate_) rate_ = host_rate();
  uint64_t now = xpu_tsc();
  if (tried_ && (double)(now - tried_) < refresh_s * 1e9 * rate_) return;
  tried_ = now;
  Anchor anchor = sample(queue);
  // On a busy machine an older, sharper anchor is better, up to its drift.
  double drift = (double)(now - last_.tsc) * max_rate_error;
  if (!anchor.width || (last_.width && (double)anchor.width > (double)last_.width + 2 * drift))
    return;
  if (!first_.width) first_ = anchor;
  last_ = anchor;
  error_ = std::max(error_, anchor.width / 2);
  double span = (double)(last_.tsc - first_.tsc);
  bool sharp = (double)(first_.width + last_.width) < span * max_rate_error;
  rate_ = sharp ? span / (double)(last_.device - first_.device) : host_rate();
}

uint64_t DeviceClock::ticks(cl_ulong device_ns) const {
  if (!last_.width || !device_ns) return 0;
  double distance = (double)(int64_t)(device_ns - last_.device) * rate_;
  return last_.tsc + (uint64_t)(int64_t)distance;
}

}  // namespace layer
