// SPDX-License-Identifier: Apache-2.0
#include "api/natively.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>

namespace layer {

static std::atomic<bool> calls_back;

void driver_calls_back() { calls_back = true; }

static bool is_in(const void *function, const char *library) {
  Dl_info info;
  if (!dladdr(function, &info) || !info.dli_fname) return false;
  const char *slash = std::strrchr(info.dli_fname, '/');
  return std::strncmp(slash ? slash + 1 : info.dli_fname, library, std::strlen(library)) == 0;
}

bool may_run_natively(const void *object, Compiles what) {
  if (calls_back || !object) return false;
  // Under a loader, `next` is its own; as a driver, the object's table is ours.
  const auto *table = *static_cast<const cl_icd_dispatch *const *>(object);
  const void *functions[] = {reinterpret_cast<const void *>(next.clBuildProgram),
                             reinterpret_cast<const void *>(table->clBuildProgram)};
  return std::any_of(std::begin(functions), std::end(functions), [what](const void *function) {
    return is_in(function, "libpocl.so") ||
           (what == Compiles::nothing && is_in(function, "libintelocl.so"));
  });
}

}  // namespace layer
