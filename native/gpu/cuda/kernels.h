/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel a launch runs: function handles, names, resources, and the cubins they come from. */
#ifndef XPUPROF_CUDA_KERNELS_H
#define XPUPROF_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "dispatch.h"
#include "xpuprof/boundary.h"

struct KernelFacts {
  uint32_t id;             /* from xpu_kernel_built */
  xpu_resources resources; /* local_dynamic is the launch's and left 0 */
};

/* `find` is called under the recorder's lock. The two module calls come from inside the driver,
 * which may hold its own locks: they take a lock under which nothing is ever called. */
class Kernels {
 public:
  explicit Kernels(const char *reason) : reason_(reason) {}
  /* Remembers the kernels of a loaded cubin. */
  void module_loaded(const void *cubin, size_t size);
  /* Handles may name other functions from now on. */
  void module_unloaded() { unloads_++; }
  /* Cubins whose kernels can launch kernels. */
  uint64_t launching() const { return launching_; }
  /* `name` (may be NULL) is used when the driver does not report one. */
  const KernelFacts &find(CUfunction function, const char *name);

 private:
  uint32_t program_of(const std::string &mangled);
  uint32_t program(const uint8_t hash[16], const char *origin);
  const char *reason_;
  std::atomic<uint64_t> unloads_{0}, launching_{0};
  uint64_t unloads_seen_ = 0;
  std::unordered_map<CUfunction, KernelFacts> by_handle_;
  std::map<std::string, uint32_t> kernels_;                  /* program and name -> kernel id */
  std::mutex modules_lock_;                                  /* guards the two below */
  std::unordered_map<std::string, uint32_t> module_kernels_; /* mangled name -> program id */
  std::map<std::string, uint32_t> programs_;                 /* hash -> program id */
};

/* Demangled C++ names; other names stay unchanged. */
std::string demangled(const char *name);

#endif
