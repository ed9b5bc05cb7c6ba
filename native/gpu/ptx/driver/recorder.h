/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks share: the recording process's state, its lock, and the frame of each of them. */
#ifndef XPUPROF_PTX_RECORDER_H
#define XPUPROF_PTX_RECORDER_H

#include <map>
#include <mutex>

#include "counters.h"
#include "driver.h"
#include "programs.h"
#include "xpuprof/boundary.h"
#include "xpuprof/kernel_spec.hpp"

namespace ptx {

struct Recorder {
  explicit Recorder(Unit unit, uint64_t memory) : programs(unit), counters(memory) {}
  Programs programs;
  Counters counters;
  KernelFilter filter;
  std::map<CUstream, uint32_t> queues;
  bool device_launches_graphs = false;
};

/* Held from a launch's preparation to its record: the kernel's slot and the launch belong
 * together. */
extern std::recursive_mutex recorder_lock;
extern Recorder *recorder; /* never freed: calls come until the end */

/* The first call of the process starts it. False inside a hook. */
bool is_recording();
/* The driver ends itself when the program exits, before what was registered earlier: so once more,
 * now that it is at work. */
void finish_before_the_driver();

/* Inside one of our hooks: the device runtime's work, as CPU engines see it; and our own calls are
 * harmless to a stream capture in another thread. */
class Inside {
 public:
  Inside();
  ~Inside();

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool is_relaxed_; /* not before cuInit */
};

}  // namespace ptx

#endif
