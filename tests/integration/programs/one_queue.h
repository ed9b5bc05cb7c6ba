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

static cl_context context;
static cl_command_queue queue;
static cl_program program;

static void check(cl_int error) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "OpenCL error %d\n", error);
  exit(99);
}

static void set_up(const char *source) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL));
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error);
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error);
  program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error);
  check(clBuildProgram(program, 1, &device, "", NULL, NULL));
}

static cl_kernel kernel_of(const char *name) {
  cl_int error;
  cl_kernel kernel = clCreateKernel(program, name, &error);
  check(error);
  return kernel;
}

#endif
