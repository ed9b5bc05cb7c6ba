// SPDX-License-Identifier: Apache-2.0
/* OpenCL and Level Zero as far as a launch's sizes need them; their headers are not. */
#include "geometry.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include <map>
#include <mutex>

namespace {

struct Sizes {
  uint32_t dimensions;
  uint64_t global[3], local[3], offset[3];
};
thread_local const Sizes *under_way;

class Call {
 public:
  explicit Call(const Sizes *sizes) : outer_(under_way) { under_way = sizes; }
  ~Call() { under_way = outer_; }

 private:
  const Sizes *outer_;
};

/* The runtime's own function: the next one, or that of a library which the program loaded for
 * itself. */
template <typename Function>
Function real(const char *library, const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) {
    void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (loaded) found = dlsym(loaded, name);
  }
  return reinterpret_cast<Function>(found);
}

/* ---- Level Zero: a kernel has its group size, a launch the number of groups ----------------- */

struct Size {
  uint32_t x, y, z;
};
std::mutex lock;
std::map<void *, Size> groups; /* by kernel handle */

Sizes sizes_of(void *kernel, const Size *count) {
  std::lock_guard<std::mutex> hold(lock);
  auto known = groups.find(kernel);
  if (known == groups.end() || !count) return {};
  const Size &group = known->second;
  return {
      3,
      {uint64_t{count->x} * group.x, uint64_t{count->y} * group.y, uint64_t{count->z} * group.z},
      {group.x, group.y, group.z},
      {}};
}

typedef uint32_t (*SetGroupSize)(void *, uint32_t, uint32_t, uint32_t);
typedef uint32_t (*AppendLaunch)(void *, void *, const Size *, void *, uint32_t, void **);
typedef int32_t (*Enqueue)(void *, void *, uint32_t, const size_t *, const size_t *, const size_t *,
                           uint32_t, void *const *, void **);

const char LEVEL_ZERO[] = "libze_loader.so.1", OPENCL[] = "libOpenCL.so.1";
enum { NOT_FOUND_LEVEL_ZERO = 0x78000001, NOT_FOUND_OPENCL = -59 };

uint32_t append(AppendLaunch next, void *list, void *kernel, const Size *count, void *signal,
                uint32_t n, void **waits) {
  if (!next) return NOT_FOUND_LEVEL_ZERO;
  Sizes sizes = sizes_of(kernel, count);
  Call call(&sizes);
  return next(list, kernel, count, signal, n, waits);
}

}  // namespace

void geometry_of_call(xpu_launch *launch) {
  if (!under_way) return;
  launch->dimensions = under_way->dimensions;
  memcpy(launch->global, under_way->global, sizeof launch->global);
  memcpy(launch->local, under_way->local, sizeof launch->local);
  memcpy(launch->offset, under_way->offset, sizeof launch->offset);
}

extern "C" {

XPU_API uint32_t zeKernelSetGroupSize(void *kernel, uint32_t x, uint32_t y, uint32_t z) {
  static auto next = real<SetGroupSize>(LEVEL_ZERO, __func__);
  if (!next) return NOT_FOUND_LEVEL_ZERO;
  uint32_t result = next(kernel, x, y, z);
  std::lock_guard<std::mutex> hold(lock);
  if (!result) groups[kernel] = {x, y, z};
  return result;
}

XPU_API uint32_t zeCommandListAppendLaunchKernel(void *list, void *kernel, const Size *count,
                                                 void *signal, uint32_t n, void **waits) {
  static auto next = real<AppendLaunch>(LEVEL_ZERO, __func__);
  return append(next, list, kernel, count, signal, n, waits);
}

XPU_API uint32_t zeCommandListAppendLaunchCooperativeKernel(void *list, void *kernel,
                                                            const Size *count, void *signal,
                                                            uint32_t n, void **waits) {
  static auto next = real<AppendLaunch>(LEVEL_ZERO, __func__);
  return append(next, list, kernel, count, signal, n, waits);
}

XPU_API int32_t clEnqueueNDRangeKernel(void *queue, void *kernel, uint32_t dimensions,
                                       const size_t *offset, const size_t *global,
                                       const size_t *local, uint32_t n, void *const *waits,
                                       void **event) {
  static auto next = real<Enqueue>(OPENCL, __func__);
  if (!next) return NOT_FOUND_OPENCL;
  Sizes sizes = {dimensions, {1, 1, 1}, {}, {}};
  for (uint32_t d = 0; global && d < dimensions && d < 3; d++) {
    sizes.global[d] = global[d];
    if (local) sizes.local[d] = local[d];
    if (offset) sizes.offset[d] = offset[d];
  }
  Call call(&sizes);
  return next(queue, kernel, dimensions, offset, global, local, n, waits, event);
}

}  // extern "C"
