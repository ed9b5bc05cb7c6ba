// SPDX-License-Identifier: Apache-2.0
#include "api/natively.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

namespace layer {

static std::atomic<bool> calls_back;

void driver_calls_back() { calls_back = true; }

// By the file that the function is in.
static bool is_of_pocl(const void *function) {
  static const char name[] = "libpocl.so";
  Dl_info info;
  if (!dladdr(function, &info) || !info.dli_fname) return false;
  const char *slash = std::strrchr(info.dli_fname, '/');
  return std::strncmp(slash ? slash + 1 : info.dli_fname, name, sizeof name - 1) == 0;
}

bool may_run_natively(const void *object) {
  if (calls_back || !object) return false;
  // Under a loader, `next` is its own; as a driver, the object's table is ours.
  const auto *table = *static_cast<const cl_icd_dispatch *const *>(object);
  return is_of_pocl(reinterpret_cast<const void *>(next.clBuildProgram)) ||
         is_of_pocl(reinterpret_cast<const void *>(table->clBuildProgram));
}

}  // namespace layer
