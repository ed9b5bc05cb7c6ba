/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel a launch runs: function handles, names, resources, and the cubins they come from. */
#ifndef XPUPROF_CUDA_KERNELS_H
#define XPUPROF_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "dispatch.h"
#include "xpuprof/boundary.h"

struct KernelFacts {
  uint32_t id;             /* from xpu_kernel_built */
  xpu_resources resources; /* local_dynamic is the launch's and left 0 */
  std::string mangled;
};

/* `find` is called under the recorder's lock. The two module calls come from inside the driver,
 * which may hold its own locks: they take a lock under which nothing is ever called. */
class Kernels {
 public:
  explicit Kernels(const char *reason) : reason_(reason) {}
  /* Remembers the kernels of a loaded cubin. */
  void module_loaded(const void *cubin, size_t size);
  void module_unloaded(const void *cubin, size_t size);
  /* Cubins whose kernels can launch kernels. */
  uint64_t launching() const { return launching_; }
  /* `name` (may be NULL) is used when the driver does not report one. */
  const KernelFacts &find(CUfunction function, const char *name);

 private:
  uint32_t program_of(const std::string &mangled);
  void forget_unloaded();
  const char *reason_;
  std::atomic<uint64_t> launching_{0};
  std::unordered_map<CUfunction, KernelFacts> by_handle_;
  std::map<std::string, uint32_t> kernels_;              /* program and name -> kernel id */
  std::map<std::array<uint8_t, 16>, uint32_t> programs_; /* hash of the code -> program id */
  std::mutex modules_lock_;                              /* guards the three below */
  std::unordered_map<std::string, std::array<uint8_t, 16>> code_; /* mangled name -> its hash */
  std::unordered_set<std::string> unloaded_; /* names in modules unloaded since the last launch */
  bool all_unloaded_ = false;                /* a module whose names are not known is among them */
};

#endif
