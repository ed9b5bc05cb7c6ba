// SPDX-License-Identifier: Apache-2.0
#include "api/settings.hpp"

#include <cstdlib>

#include "xpuprof/boundary.h"
#include "xpuprof/kernel_spec.hpp"

namespace layer {

Settings &settings = *new Settings;

static std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

static Mode asked_mode() {
  if (variable(XPU_ENV_DIR).empty() || !xpu_process_counts()) return Mode::inert;
  if (variable(XPU_ENV_MODE) != "time") return Mode::profile;
  return variable(XPU_ENV_TIMER) == "sync" ? Mode::time_sync : Mode::time_async;
}

void read_settings() {
  Settings read;
  read.mode = asked_mode();
  const bool profile = read.mode == Mode::profile;
  // The asynchronous timer needs device stamps; a profile takes them on request.
  read.device_stamps =
      read.mode == Mode::time_async || (profile && variable(XPU_ENV_TIMER) == "async");
  const std::string memory = variable(XPU_ENV_MEMORY);
  read.record_memory = profile && !memory.empty();
  read.access_room = std::strtoull(memory.c_str(), nullptr, 10);
  read.kernels = variable(XPU_ENV_KERNELS);
  read.instrumenter = variable(XPU_ENV_CLINST);
  if (!profile) {
    read.ahead = variable("XPUPROF_OPENCL_AHEAD");
    read.ahead_engine = variable("XPUPROF_OPENCL_AHEAD_ENGINE");
  }
  read.drivers = variable("XPUPROF_OPENCL_DRIVERS");
  const std::string counters = variable("XPUPROF_OPENCL_COUNTERS");
  read.copied_counters = counters == "device";
  read.own_binaries = profile && variable("XPUPROF_OPENCL_BINARIES") != "keep";
  read.kernels_count = counters == "kernel";
  const std::string translator = profile ? variable(XPU_ENV_TRANSLATED) : "";
  read.translated = !translator.empty();
  read.leaves_translator = translator == "dynamorio";  // the only one of the launcher's engines
  settings = read;
}

}  // namespace layer
