/* SPDX-License-Identifier: Apache-2.0 */
/* Work known by construction, in and around marked windows: windows STEPS [LATE]
 *
 * Step i (from 0): before the window `outside` is called 50 times; in it `inside` 10 + i times by
 * the main thread and 3 + i times by a second one, then a kernel runs, then `tail` is called i + 1
 * times. Warp w of the kernel makes (w + 1) * (i + 1) atomic additions a work-item. With LATE the
 * window of a step closes before its kernel has completed.
 *
 * Compiled as C it calls the marker functions, as C++ it uses the class. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <xpuprof/marker.h>

static const char *SOURCE =
    "kernel void add(global int *x, int n) {"
    "  for (int j = 0; j < (int)(get_global_id(0) / 32 + 1) * n; j++) atomic_inc(x); }";

static volatile long sink;

__attribute__((noinline)) void outside(void) { sink++; }
__attribute__((noinline)) void inside(void) { sink++; }
__attribute__((noinline)) void inside_thread(void) { sink++; }
__attribute__((noinline)) void tail(void) { sink++; }

static void *second(void *n) {
  for (long i = 0; i < (long)n; i++) inside_thread();
  return 0;
}

static cl_command_queue queue;
static cl_kernel kernel;

static void step(long i, int late) {
  pthread_t thread;
  const size_t global = 128, local = 64;
  int n = (int)i + 1;
  pthread_create(&thread, 0, second, (void *)(3 + i));
  for (long j = 0; j < 10 + i; j++) inside();
  pthread_join(thread, 0);
  clSetKernelArg(kernel, 1, sizeof n, &n);
  if (clEnqueueNDRangeKernel(queue, kernel, 1, 0, &global, &local, 0, 0, 0)) exit(1);
  if (!late) clFinish(queue);
  for (long j = 0; j < i + 1; j++) tail();
}

static void marked_step(long i, int late) {
#ifdef __cplusplus
  xpuprof::window marked("step");
  step(i, late);
#else
  xpuprof_window_begin("step");
  step(i, late);
  xpuprof_window_end("step");
#endif
}

int main(int argc, char **argv) {
  cl_platform_id platform;
  cl_device_id device;
  if (argc < 2 || clGetPlatformIDs(1, &platform, 0) ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, 0))
    return 1;
  cl_context context = clCreateContext(0, 1, &device, 0, 0, 0);
  queue = clCreateCommandQueue(context, device, 0, 0);
  cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, 0, 0);
  if (clBuildProgram(program, 1, &device, "", 0, 0)) return 1;
  kernel = clCreateKernel(program, "add", 0);
  cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(int), 0, 0);
  int zero = 0;
  clEnqueueWriteBuffer(queue, x, CL_TRUE, 0, sizeof zero, &zero, 0, 0, 0);
  clSetKernelArg(kernel, 0, sizeof x, &x);
  for (long i = 0; i < atol(argv[1]); i++) {
    for (int j = 0; j < 50; j++) outside();
    marked_step(i, argc > 2);
  }
  clFinish(queue);
  clEnqueueReadBuffer(queue, x, CL_TRUE, 0, sizeof zero, &zero, 0, 0, 0);
  printf("%d additions\n", zero);
  fflush(stdout);
  return 7;
}
