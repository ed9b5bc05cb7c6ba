// SPDX-License-Identifier: Apache-2.0
// Maps a launch's addresses to memory objects: identities of buffers and allocations, stable from
// run to run, and the lines that accesses touch.
#ifndef XPUPROF_OPENCL_LINES_HPP
#define XPUPROF_OPENCL_LINES_HPP

#include <map>
#include <memory>
#include <vector>

#include "memory/access_order.hpp"
#include "programs/kernels.hpp"

namespace layer {

// Memory allocated by address (SVM, USM), by start address.
struct Allocation {
  uint64_t size, id;
};
using Allocations = std::map<uint64_t, Allocation>;

// An argument that was set to a buffer, or a sub-buffer at `offset` of it, or an image. Id 0: none.
struct MemoryArgument {
  uint64_t id = 0, size = 0, offset = 0;
  unsigned dimensions = 0;  // of an image, or 0: texels in `extent`, of `element` bytes
  uint64_t extent[3] = {1, 1, 1}, element = 0;
};

// The memory object the argument refers to now.
MemoryArgument memory_of(const Argument &argument);
// The current allocations by address.
std::shared_ptr<const Allocations> allocations_now();
// An allocation by address; replaces any it overlaps.
void allocated(const void *memory, size_t size);

void override_allocations(cl_icd_dispatch *table);

// Maps an address of the launch to a line number that is the same in every run.
class Lines {
 public:
  // `area`: the launch's area, which holds the values of the arguments.
  Lines(const std::vector<MemoryArgument> &memory, const Allocations &allocations,
        const uint64_t *area);

  // Adds the lines of an access to `lines`, each once. A generic pointer outside all buffers refers
  // to local or private memory.
  void add(const AccessEntry &access, std::vector<uint64_t> *lines);

 private:
  void add_bytes(uint64_t id, uint64_t offset, uint64_t bytes, std::vector<uint64_t> *lines);
  void add_texel(uint64_t address, std::vector<uint64_t> *lines);
  void find(uint64_t address, uint64_t *base, uint64_t *id);

  struct Region {
    uint64_t base, size, id;
  };
  std::vector<Region> regions_;
  const std::vector<MemoryArgument> &memory_;
  const Allocations &allocations_;
};

}  // namespace layer
#endif
