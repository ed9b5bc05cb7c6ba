/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the test programs: one platform, device, context and queue, a program with kernels
 * whose counts a test can model, and a sink that shows their results. */
#ifndef OPENCL_SET_UP_H
#define OPENCL_SET_UP_H
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ITEMS = 1 << 16 };

static const char *const SOURCE =
    "kernel void trips(global const int *n, global int *sink) {\n"
    "  size_t i = get_global_id(0) - get_global_offset(0) + get_global_size(0) *\n"
    "    (get_global_id(1) + get_global_size(1) * get_global_id(2));\n"
    "  for (int k = 0; k < n[i]; k++) atomic_inc(&sink[i & 7]);\n"
    "}\n"
    "kernel void straight(global int *sink) {\n"
    "  atomic_add(&sink[get_global_id(0) & 7], STEP);\n"
    "}\n";

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;
static cl_mem input, sink;

static void must(cl_int error, const char *what) {
  if (error == CL_SUCCESS) return;
  printf("%s: error %d\n", what, error);
  fflush(stdout);
  _exit(3);
}

static cl_program build(const char *text, const char *options) {
  cl_int error;
  cl_program built = clCreateProgramWithSource(context, 1, &text, NULL, &error);
  must(error, "create program");
  must(clBuildProgram(built, 1, &device, options, NULL, NULL), "build");
  return built;
}

static cl_kernel kernel_of(cl_program from, const char *name) {
  cl_int error;
  cl_kernel kernel = clCreateKernel(from, name, &error);
  must(error, name);
  return kernel;
}

__attribute__((unused)) static cl_kernel trips_kernel(void) {
  cl_kernel kernel = kernel_of(program, "trips");
  must(clSetKernelArg(kernel, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink, &sink), "argument 1");
  return kernel;
}

__attribute__((unused)) static cl_kernel straight_kernel(cl_program from) {
  cl_kernel kernel = kernel_of(from, "straight");
  must(clSetKernelArg(kernel, 0, sizeof sink, &sink), "argument 0");
  return kernel;
}

static void set_up(void) {
  static int trips[MAX_ITEMS], zeros[8];
  cl_int error;
  for (int i = 0; i < MAX_ITEMS; i++) trips[i] = (int)((unsigned)i * 7919u % 13u);
  must(clGetPlatformIDs(1, &platform, NULL), "platform");
  must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  must(error, "context");
  queue = clCreateCommandQueue(context, device, 0, &error);
  must(error, "queue");
  input = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof trips, trips, &error);
  must(error, "input");
  sink = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros, &error);
  must(error, "sink");
  program = build(SOURCE, "-DSTEP=3");
}

__attribute__((unused)) static void show_sink(const char *title) {
  int values[8],
      error = clEnqueueReadBuffer(queue, sink, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
  must(error, "read");
  printf("%s:", title);
  for (int i = 0; i < 8; i++) printf(" %d", values[i]);
  printf("\n");
}

static cl_int run(cl_command_queue on, cl_kernel kernel, cl_uint n, const size_t *global,
                  const size_t *local) {
  return clEnqueueNDRangeKernel(on, kernel, n, NULL, global, local, 0, NULL, NULL);
}

__attribute__((unused)) static cl_int run_1d(cl_command_queue on, cl_kernel kernel, size_t global,
                                             size_t local) {
  return run(on, kernel, 1, &global, local ? &local : NULL);
}

struct one_case {
  const char *name;
  void (*run)(void);
};

__attribute__((unused)) static int run_case(const struct one_case *cases, size_t n, int argc,
                                            char **argv) {
  for (size_t i = 0; argc > 1 && i < n; i++)
    if (strcmp(argv[1], cases[i].name) == 0) {
      set_up();
      cases[i].run();
      return 0;
    }
  fprintf(stderr, "usage: %s CASE\n", argv[0]);
  return 2;
}
#endif
