// SPDX-License-Identifier: Apache-2.0
// LRU stack distances of device accesses (`--memory`): a launch's recording memory, the map of its
// addresses, and each device's stack of lines.
#ifndef XPUPROF_OPENCL_STACK_MEMORY_HPP
#define XPUPROF_OPENCL_STACK_MEMORY_HPP

#include <memory>
#include <vector>

#include "counters/counters.hpp"
#include "memory/access_area.hpp"
#include "memory/lines.hpp"
#include "programs/kernels.hpp"

namespace layer {

// What one launch records, and everything needed to read it after the launch. Identities are taken
// at the launch: its buffers may be released and their addresses reused before the records are
// read.
struct Recording {
  AccessLayout layout;
  std::vector<MemoryArgument> memory;  // one per argument of the kernel that refers to memory
  std::shared_ptr<const Allocations> allocations;
  uint64_t at = 0;     // offset of the records after the launch's header
  uint64_t words = 0;  // total to allocate: preface, header, counters, records
  std::shared_ptr<CounterArea> area;
};

// A finished launch: its records, and the number of accesses its work-items made.
struct RecordedAccesses {
  std::shared_ptr<Recording> recording;
  Geometry geometry;
  uint64_t accesses = 0;
  bool beyond = false;  // some could not be recorded
};

// `at`: words of the launch's header and counters, which precede the records. Without room nothing
// is recorded, and the launch's vector says so.
std::shared_ptr<Recording> plan_recording(Kernel *kernel, const Variant &variant,
                                          const Geometry &geometry, bool local_known,
                                          const Device &device, uint64_t at, bool with_room);

// Prepares the launch's area of Recording::words; it then begins with the header. False: the device
// refused.
bool prepare_recording(Recording *recording, std::shared_ptr<CounterArea> area);

// Whether the records are on the host, for a finished launch whose counters are. Poll until true.
bool records_arrived(Recording *recording);

// Recorded accesses of all work-items, from the counts of the kernel's blocks.
uint64_t accesses_of(const InstrumentedKernel &kernel, const WarpClasses &classes);

// Launches enter their device's stack in launch order, whatever the order of completion. A failed
// launch adds nothing. Call under the lock of the launches.
void recording_launched(const Device &device, uint64_t launch);
void recording_finished(const Device &device, uint64_t launch, RecordedAccesses accesses);
void forget_stacks();  // after fork, in the child

}  // namespace layer
#endif
