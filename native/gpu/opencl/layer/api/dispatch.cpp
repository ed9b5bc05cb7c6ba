// SPDX-License-Identifier: Apache-2.0
// The layer's entry points, and the table it places before the driver's.
#include <CL/cl_layer.h>

#include <algorithm>
#include <cstring>

#include "api/layer.hpp"
#include "launches/launches.hpp"
#include "memory/stack_memory.hpp"

namespace layer {

cl_icd_dispatch next;

static cl_icd_dispatch table;

const cl_icd_dispatch &begin() {
  table = next;
#define ENTRY(name) \
  if (next.name) table.name = Through<&cl_icd_dispatch::name>::call;
#include "api/entries.def"
#undef ENTRY
  override_objects(&table);
  override_programs(&table);
  override_kernels(&table);
  override_launches(&table);
  override_transfers(&table);
  override_callbacks(&table);
  override_extensions(&table);
  override_allocations(&table);
  register_forks();
  return table;
}

static cl_int init(cl_uint entries, const cl_icd_dispatch *target, cl_uint *entries_ret,
                   const cl_icd_dispatch **table_ret) {
  if (!target || !entries_ret || !table_ret) return CL_INVALID_VALUE;
  constexpr cl_uint known = sizeof(cl_icd_dispatch) / sizeof(void *);
  read_settings();
  *entries_ret = std::min(entries, known);
  if (settings.mode == Mode::inert) {
    *table_ret = target;
    return CL_SUCCESS;
  }
  leave_drivers();
  std::memcpy(&next, target, *entries_ret * sizeof(void *));
  *table_ret = &begin();
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
