// LRU stack distances of device accesses (`--memory`): what a launch is given to record with, whose
// memory its addresses lie in, and the stack of lines that each device keeps.
#ifndef XPUPROF_OPENCL_STACK_MEMORY_HPP
#define XPUPROF_OPENCL_STACK_MEMORY_HPP

#include <map>
#include <memory>
#include <vector>

#include "access_area.hpp"
#include "counters.hpp"
#include "kernels.hpp"

namespace layer {

// Memory that the application got by address (SVM, USM), by where it begins.
struct Allocation {
  uint64_t size, id;
};
using Allocations = std::map<uint64_t, Allocation>;

// A pointer argument that was set to a buffer, or a sub-buffer at `offset` of it. Id 0: none.
struct BufferArgument {
  uint64_t id = 0, size = 0, offset = 0;
};

// What one launch records, and all that is needed to read it when it has finished. Identities are
// taken at the launch: a buffer may be gone, and its address in use again, when it is read.
struct Recording {
  AccessLayout layout;
  std::vector<BufferArgument> buffers;  // one a pointer argument of the kernel
  std::shared_ptr<const Allocations> allocations;
  uint64_t at = 0;     // where the area lies behind the launch's header
  uint64_t words = 0;  // to be allocated in all: preface, header, counters, area
};

// A finished launch: its counters, and how many accesses its work-items made.
struct RecordedAccesses {
  std::shared_ptr<Recording> recording;
  CounterArea area;
  Geometry geometry;
  uint64_t accesses = 0;
  bool beyond = false;  // some could not be recorded
};

// `at`: words of the launch's header and counters, which the area stands behind.
std::shared_ptr<Recording> plan_recording(Kernel *kernel, const Variant &variant,
                                          const Geometry &geometry, bool local_known,
                                          const Device &device, uint64_t at, bool has_room);

// Makes the launch's area, of Recording::words, ready; it then begins with the header.
void prepare_recording(const Recording &recording, CounterArea *area);

// Recorded accesses of all work-items, from the counts of the kernel's blocks.
uint64_t accesses_of(const InstrumentedKernel &kernel, const WarpClasses &classes);

// Launches of a device are taken into its stack in the order in which they were launched, however
// they finish. Of one that failed nothing is taken in. Call under the lock of the launches.
void recording_launched(const Device &device, uint64_t launch);
void recording_finished(const Device &device, uint64_t launch, RecordedAccesses accesses);
void forget_stacks();  // after fork, in the child

// An allocation by address; what was known where it lies is gone.
void allocated(const void *memory, size_t size);

void override_allocations(cl_icd_dispatch *table);

}  // namespace layer
#endif
