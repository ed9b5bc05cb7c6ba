/* SPDX-License-Identifier: Apache-2.0 */
/* One queue of the first device, and the kernels of one source. An error ends the program. */
#ifndef ONE_QUEUE_H
#define ONE_QUEUE_H
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;

static void check(cl_int error) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "OpenCL error %d\n", error);
  exit(99);
}

typedef void(CL_CALLBACK *error_function)(const char *, const void *, size_t, void *);

static inline void open_queue(error_function on_error) {
  cl_platform_id platform;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL));
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  context = clCreateContext(NULL, 1, &device, on_error, NULL, &error);
  check(error);
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error);
}

static inline cl_program program_of(const char *source) {
  cl_int error;
  cl_program made = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error);
  return made;
}

static inline void set_up(const char *source) {
  open_queue(NULL);
  program = program_of(source);
  check(clBuildProgram(program, 1, &device, "", NULL, NULL));
}

static inline cl_kernel kernel_of(const char *name) {
  cl_int error;
  cl_kernel kernel = clCreateKernel(program, name, &error);
  check(error);
  return kernel;
}

#endif
