// SPDX-License-Identifier: Apache-2.0
// The layer's entry points, and the table it places before the driver's.
#include <CL/cl_layer.h>

#include <algorithm>

#include "api/layer.hpp"
#include "launches/launches.hpp"
#include "memory/stack_memory.hpp"

namespace layer {

cl_icd_dispatch next;

cl_icd_dispatch table;

void begin() {
  cl_icd_dispatch made{};  // other threads may use the one that exists
#define ENTRY(name) \
  if (next.name) made.name = Through<&cl_icd_dispatch::name>::call;
#include "api/entries.def"
#undef ENTRY
  override_platforms(&made);
  override_objects(&made);
  override_programs(&made);
  override_kernels(&made);
  override_launches(&made);
  override_transfers(&made);
  override_callbacks(&made);
  override_extensions(&made);
  override_allocations(&made);
  table = made;
  register_forks();
}

static cl_int init(cl_uint entries, const cl_icd_dispatch *target, cl_uint *entries_ret,
                   const cl_icd_dispatch **table_ret) {
  if (!target || !entries_ret || !table_ret) return CL_INVALID_VALUE;
  constexpr cl_uint known = sizeof(cl_icd_dispatch) / sizeof(void *);
  *entries_ret = std::min(entries, known);
  *table_ret = target;
  quietly([&] { *table_ret = for_loader(target, *entries_ret * sizeof(void *)); });
  return CL_SUCCESS;
}

}  // namespace layer

extern "C" {

XPU_API cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t room, void *value,
                                          size_t *size_ret) {
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const char title[] = "xpuprof";
  if (name == CL_LAYER_API_VERSION)
    return layer::answer(&version, sizeof version, room, value, size_ret);
  if (name == CL_LAYER_NAME) return layer::answer(title, sizeof title, room, value, size_ret);
  return CL_INVALID_VALUE;
}

XPU_API cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch *target,
                                       cl_uint *entries_ret, const cl_icd_dispatch **table_ret) {
  return layer::init(entries, target, entries_ret, table_ret);
}

// The Khronos loader skips a layer that lacks these two; their types are not in Debian's headers.
XPU_API cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entries, const cl_icd_dispatch *target,
                                                     cl_uint *entries_ret,
                                                     const cl_icd_dispatch **table_ret,
                                                     const void *properties);
XPU_API cl_int CL_API_CALL clDeinitLayer(void);

cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entries, const cl_icd_dispatch *target,
                                             cl_uint *entries_ret,
                                             const cl_icd_dispatch **table_ret, const void *) {
  return layer::init(entries, target, entries_ret, table_ret);
}

cl_int CL_API_CALL clDeinitLayer(void) {
  layer::finish();
  return CL_SUCCESS;
}
}
