// SPDX-License-Identifier: Apache-2.0
// LRU stack distances of device accesses (`--memory`): what a launch is given to record with, whose
// memory its addresses lie in, and the stack of lines that each device keeps.
#ifndef XPUPROF_OPENCL_STACK_MEMORY_HPP
#define XPUPROF_OPENCL_STACK_MEMORY_HPP

#include <memory>
#include <vector>

#include "counters/counters.hpp"
#include "memory/access_area.hpp"
#include "memory/lines.hpp"
#include "programs/kernels.hpp"

namespace layer {

// What one launch records, and all that is needed to read it when it has finished. Identities are
// taken at the launch: a buffer may be gone, and its address in use again, when it is read.
struct Recording {
  AccessLayout layout;
  std::vector<MemoryArgument> memory;  // one an argument of the kernel that leads to memory
  std::shared_ptr<const Allocations> allocations;
  uint64_t at = 0;     // where the records lie behind the launch's header
  uint64_t words = 0;  // to be allocated in all: preface, header, counters, records
  std::shared_ptr<CounterArea> area;
};

// A finished launch: what it recorded, and how many accesses its work-items made.
struct RecordedAccesses {
  std::shared_ptr<Recording> recording;
  Geometry geometry;
  uint64_t accesses = 0;
  bool beyond = false;  // some could not be recorded
};

// `at`: words of the launch's header and counters, which the records stand behind. Without room
// nothing is recorded, and the launch's vector says so.
std::shared_ptr<Recording> plan_recording(Kernel *kernel, const Variant &variant,
                                          const Geometry &geometry, bool local_known,
                                          const Device &device, uint64_t at, bool with_room);

// Makes the launch's area, of Recording::words, ready; it then begins with the header. False: the
// device refused.
bool prepare_recording(Recording *recording, std::shared_ptr<CounterArea> area);

// Of a finished launch whose counters are on the host: whether the records are. Asked until it is.
bool records_arrived(Recording *recording);

// Recorded accesses of all work-items, from the counts of the kernel's blocks.
uint64_t accesses_of(const InstrumentedKernel &kernel, const WarpClasses &classes);

// Launches of a device are taken into its stack in the order in which they were launched, however
// they finish. Of one that failed nothing is taken in. Call under the lock of the launches.
void recording_launched(const Device &device, uint64_t launch);
void recording_finished(const Device &device, uint64_t launch, RecordedAccesses accesses);
void forget_stacks();  // after fork, in the child

}  // namespace layer
#endif
