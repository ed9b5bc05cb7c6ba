// SPDX-License-Identifier: Apache-2.0
// Settings of the launcher, read once when the layer is loaded: the program may clear its
// environment later.
#ifndef XPUPROF_OPENCL_SETTINGS_HPP
#define XPUPROF_OPENCL_SETTINGS_HPP

#include <cstdint>
#include <string>

namespace layer {

enum class Mode { inert, profile, time_sync, time_async };

struct Settings {
  Mode mode = Mode::inert;
  bool device_stamps = false;      // the device stamps the start and end of each launch
  bool record_memory = false;      // also stack distances of device accesses (in a profile)
  uint64_t access_room = 0;        // bytes that a launch's recorded accesses may take
  std::string kernels;             // which launches are instrumented (kernel_spec.hpp)
  std::string instrumenter;        // its socket
  std::string ahead;               // a native run's folder for what the profile will ask for
  std::string ahead_engine;        // that profile's CPU engine
  std::string drivers;             // the loader's, separated by colons (forwarding.cpp)
  bool copied_counters = false;    // counters are copied from the device, even a CPU
  bool own_binaries = false;       // programs are built from source, not from cached binaries
  bool kernels_count = false;      // no analytic counts: every kernel counts for itself
  bool translated = false;         // a CPU engine translates this process's code
  bool leaves_translator = false;  // which runs some calls natively (natively.hpp)
};

// The process's own; forked children inherit it.
extern Settings &settings;

void read_settings();

}  // namespace layer
#endif
