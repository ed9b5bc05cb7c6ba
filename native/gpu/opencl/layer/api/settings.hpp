// SPDX-License-Identifier: Apache-2.0
// What the launcher asked for. Read once, when the layer is loaded: the program may clear its
// environment later.
#ifndef XPUPROF_OPENCL_SETTINGS_HPP
#define XPUPROF_OPENCL_SETTINGS_HPP

#include <cstdint>
#include <string>

namespace layer {

enum class Mode { inert, profile, time_sync, time_async };

struct Settings {
  Mode mode = Mode::inert;
  bool device_stamps = false;    // the device says when each launch started and ended
  bool record_memory = false;    // stack distances of device accesses, too (in a profile)
  uint64_t access_room = 0;      // bytes that a launch's recorded accesses may take
  std::string kernels;           // which launches are instrumented (kernel_spec.hpp)
  std::string instrumenter;      // its socket
  bool copied_counters = false;  // counters are copied from the device, from a CPU too
  bool kernels_count = false;    // no counts from the launch alone: every kernel counts for itself
};

// The process's own; forked children inherit it.
extern Settings &settings;

void read_settings();

}  // namespace layer
#endif
