/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL loader with the one device of Mesa 22.3's rusticl, by the answers that this gave:
 * version 3.0, an empty IL version, and no `cl_khr_spir` among the extensions. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <string.h>

static int one;

static cl_int answer(const char *text, size_t room, void *value, size_t *size) {
  if (size) *size = strlen(text) + 1;
  if (value && room > strlen(text)) strcpy(value, text);
  return CL_SUCCESS;
}

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count) {
  if (count) *count = 1;
  if (room && platforms) *platforms = (cl_platform_id)&one;
  return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t room, void *value,
                         size_t *size) {
  (void)platform;
  return answer(name == CL_PLATFORM_NAME ? "rusticl" : "OpenCL 3.0 ", room, value, size);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room,
                      cl_device_id *devices, cl_uint *count) {
  (void)platform, (void)type;
  if (count) *count = 1;
  if (room && devices) *devices = (cl_device_id)&one;
  return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t room, void *value,
                       size_t *size) {
  (void)device;
  switch (name) {
    case CL_DEVICE_NAME:
      return answer("llvmpipe", room, value, size);
    case CL_DEVICE_EXTENSIONS:
      return answer("cl_khr_byte_addressable_store cl_khr_3d_image_writes", room, value, size);
    default:
      return answer("", room, value, size);
  }
}
