// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#define XPU_ENV_COUNTER_MEMORY "XPUPROF_COUNTER_MEMORY" /* MiB of device memory for counters */
#define XPU_ENV_COUNT_UNIT "XPUPROF_COUNT_UNIT"         /* lane (default) | warp */

namespace ptx {

std::recursive_mutex recorder_lock;
Recorder *recorder;

namespace {

std::atomic<bool> recording{false};
thread_local bool ours;
pid_t process; /* a forked child cannot use the driver */

void finish() {
  if (getpid() != process) return;
  std::lock_guard<std::recursive_mutex> hold(recorder_lock);
  if (!recording.exchange(false)) return;
  Inside inside;
  recorder->counters.finish();
  xpu_meta("launches_not_read", std::to_string(recorder->counters.lost()).c_str());
  xpu_gpu_fini();
}

void start() {
  const char *dir = getenv(XPU_ENV_DIR), *unit = getenv(XPU_ENV_COUNT_UNIT),
             *memory = getenv(XPU_ENV_COUNTER_MEMORY), *kernels = getenv(XPU_ENV_KERNELS);
  const char *missing = "";
  std::string why;
  bool found = load_driver(&missing);
  if (!dir || !*dir || !xpu_process_counts()) return;
  bool warps = unit && strcmp(unit, "warp") == 0;
  int version = 0;
  if (found) driver.cuDriverGetVersion(&version);
  xpu_gpu_init("ptx", ("driver " + std::to_string(version)).c_str(), warps ? "warp" : "lane", 32);
  if (!found) {
    xpu_meta("gpu_engine_failed",
             (std::string("the driver has no ") + missing + "; install 12.3 or later").c_str());
    return;
  }
  recorder = new Recorder(warps ? Unit::WARP : Unit::LANE,
                          memory ? strtoull(memory, nullptr, 10) << 20 : 0);
  if (kernels && !recorder->filter.parse(kernels, &why)) xpu_meta("gpu_engine_failed", why.c_str());
  process = getpid();
  recording = true;
  xpu_register_harvest(finish);
  atexit(finish);
}

}  // namespace

bool is_recording() {
  static std::once_flag once;
  std::call_once(once, start);
  return recording && !ours;
}

void finish_before_the_driver() {
  static std::once_flag once;
  std::call_once(once, [] { atexit(finish); });
}

Inside::Inside() {
  ours = true;
  xpu_api_enter();
  is_relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

Inside::~Inside() {
  if (is_relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
  xpu_api_leave();
  ours = false;
}

}  // namespace ptx
