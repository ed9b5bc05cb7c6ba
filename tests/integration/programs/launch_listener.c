/* SPDX-License-Identifier: Apache-2.0 */
/* Placed in the drivers' tables before our layer: writes what the runtime is asked to launch, a
 * line each, to the file $LISTENED: the kernel's name, its number of arguments, and its local size
 * (0: none given). As a layer it does nothing. */
#include <CL/cl_layer.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static cl_icd_dispatch below;
static FILE *file;

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *offset, const size_t *global, const size_t *local,
                                 cl_uint n_events, const cl_event *events, cl_event *event) {
  char name[200] = "";
  cl_uint arguments = 0;
  below.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
  below.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);
  fprintf(file, "%s %u", name, arguments);
  for (cl_uint d = 0; d < dimensions; d++) fprintf(file, " %zu", local ? local[d] : 0);
  fputc('\n', file);
  return below.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n_events,
                                      events, event);
}

cl_int clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_back) {
  if (name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (value && size >= sizeof(cl_layer_api_version))
    *(cl_layer_api_version *)value = CL_LAYER_API_VERSION_100;
  if (size_back) *size_back = sizeof(cl_layer_api_version);
  return CL_SUCCESS;
}

cl_int clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *n_back,
                   const cl_icd_dispatch **dispatch) {
  cl_platform_id platform;
  file = fopen(getenv("LISTENED"), "we");
  if (!file || target->clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS) return CL_INVALID_VALUE;
  cl_icd_dispatch *driver = *(cl_icd_dispatch **)platform;
  const uintptr_t start = (uintptr_t)driver & ~(uintptr_t)4095;
  if (mprotect((void *)start, (uintptr_t)(driver + 1) - start, PROT_READ | PROT_WRITE) != 0)
    return CL_INVALID_VALUE;
  below = *driver;
  driver->clEnqueueNDRangeKernel = launch;
  *n_back = n;
  *dispatch = target;
  return CL_SUCCESS;
}
