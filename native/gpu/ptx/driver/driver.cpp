// SPDX-License-Identifier: Apache-2.0
#include "driver.h"

#include <dlfcn.h>

namespace ptx {

Driver driver;

/* The launcher's link to the real libcuda.so.1, on which we depend; programs find the functions
 * that we do not define through us. */
static const char REAL_DRIVER[] = "libxpuprof_driver.so";

void *driver_function(const char *name) {
  static void *real = dlopen(REAL_DRIVER, RTLD_NOW | RTLD_LOCAL);
  return real ? dlsym(real, name) : nullptr;
}

bool load_driver(const char **missing) {
  *missing = nullptr;
#define XPU_FIND(name)                                                           \
  driver.name = reinterpret_cast<decltype(driver.name)>(driver_function(#name)); \
  if (!driver.name && !*missing) *missing = #name;
  XPU_DRIVER_FUNCTIONS(XPU_FIND)
#undef XPU_FIND
  return !*missing;
}

}  // namespace ptx
