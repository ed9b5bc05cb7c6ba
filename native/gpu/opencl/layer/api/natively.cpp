// SPDX-License-Identifier: Apache-2.0
#include "api/natively.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

namespace layer {

static std::atomic<bool> calls_unwrapped;

void driver_calls_unwrapped() { calls_unwrapped = true; }

const void *platform_of(const cl_context_properties *properties) {
  for (; properties && *properties; properties += 2)
    if (*properties == CL_CONTEXT_PLATFORM) return reinterpret_cast<const void *>(properties[1]);
  return nullptr;
}

static bool is_in(const void *function, const char *library) {
  Dl_info info;
  if (!dladdr(function, &info) || !info.dli_fname) return false;
  const char *slash = std::strrchr(info.dli_fname, '/');
  return std::strncmp(slash ? slash + 1 : info.dli_fname, library, std::strlen(library)) == 0;
}

bool may_run_natively(const void *object, Compiles what) {
  if (calls_unwrapped || !object) return false;
  const auto *function = reinterpret_cast<const void *>(driver_of(object).clBuildProgram);
  return is_in(function, "libpocl.so") ||
         (what == Compiles::nothing && is_in(function, "libintelocl.so"));
}

}  // namespace layer
