/* SPDX-License-Identifier: Apache-2.0 */
/* A function of the program that the driver calls when it has built: it spins, and builds a program
 * itself. The context has a function for errors. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../native/programs/cpu_spin.h"

static const char *SOURCE = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }\n";
static const char *WRONG = "kernel void twice(global int *x) { y = x; }\n";

static cl_context context;
static cl_device_id device;
static int called;

static void must(cl_int error, const char *what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", what, error);
  exit(1);
}

static cl_program new_program(const char *source) {
  cl_int error;
  cl_program made = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  must(error, "program");
  return made;
}

static void CL_CALLBACK on_build(cl_program program, void *rounds) {
  (void)program;
  called++;
  spin((long)rounds);
  cl_program own = new_program(SOURCE);
  must(clBuildProgram(own, 1, &device, "-DWITHIN=1", NULL, NULL), "build within");
  clReleaseProgram(own);
}

static void CL_CALLBACK on_error(const char *text, const void *data, size_t size, void *user) {
  (void)text, (void)data, (void)size, (void)user;
}

static void launch(cl_program program) {
  cl_int error;
  const size_t global = 64;
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  must(error, "queue");
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 256, NULL, &error);
  must(error, "buffer");
  cl_kernel kernel = clCreateKernel(program, "twice", &error);
  must(error, "kernel");
  must(clSetKernelArg(kernel, 0, sizeof memory, &memory), "argument");
  must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL), "launch");
  must(clFinish(queue), "finish");
  clReleaseKernel(kernel);
  clReleaseMemObject(memory);
  clReleaseCommandQueue(queue);
}

int main(void) {
  cl_platform_id platform;
  cl_int error;
  must(clGetPlatformIDs(1, &platform, NULL), "platform");
  must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
  context = clCreateContext(NULL, 1, &device, on_error, NULL, &error);
  must(error, "context");
  cl_program good = new_program(SOURCE), wrong = new_program(WRONG);
  must(clBuildProgram(good, 1, &device, NULL, on_build, (void *)1000), "build");
  error = clBuildProgram(wrong, 1, &device, NULL, on_build, (void *)200);
  clReleaseProgram(wrong);
  launch(good);
  clReleaseProgram(good);
  clReleaseContext(context);
  printf("build %d, called %d\n", error, called);
  return 0;
}
