/* SPDX-License-Identifier: Apache-2.0 */
/* Work of known size on CPU and device, different for every `who`, so that mixed-up processes show:
 * steps + 2 * who launches. Launch i runs 64 * (who + 1) work-items in groups of 64, each of which
 * counts who + 1 + i % 2 atomic increments; every third launch is of kernel `fold`, the others of
 * `grow`. Before it the main thread runs `spin_loop` 1000 * (who + 1) + i times, and a second
 * thread 500 * (who + 1) + i times. The marker `step` encloses each launch and the work before it.
 * Returns the number of the device's increments. */
#ifndef WORK_H
#define WORK_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <xpuprof/marker.h>

void spin(long rounds);
__asm__(
    ".text\n.globl spin, spin_loop\n.type spin, @function\n"
    "spin:\nspin_loop:\n  dec %rdi\n  jnz spin_loop\n  ret\n.size spin, .-spin\n");

static const char *const work_source =
    "#define BODY for (int k = 0; k < n; k++) atomic_inc(&sink[get_global_id(0) & 7]);\n"
    "kernel void grow(int n, global int *sink) { BODY }\n"
    "kernel void fold(int n, global int *sink) { BODY }\n";

static void work_check(cl_int error) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "OpenCL error %d\n", error);
  exit(99);
}

static pthread_barrier_t work_start, work_end;
static int work_who, work_launches;

static void *work_beside(void *unused) {
  for (int i = 0; i < work_launches; i++) {
    pthread_barrier_wait(&work_start);
    spin(500 * (work_who + 1) + i);
    pthread_barrier_wait(&work_end);
  }
  return unused;
}

static int work(int who, int steps, void (*after_launch)(void)) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  pthread_t beside;
  int sink[8] = {0}, sum = 0;
  work_who = who;
  work_launches = steps + 2 * who;
  pthread_barrier_init(&work_start, NULL, 2);
  pthread_barrier_init(&work_end, NULL, 2);
  pthread_create(&beside, NULL, work_beside, NULL);
  work_check(clGetPlatformIDs(1, &platform, NULL));
  work_check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  work_check(error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  work_check(error);
  cl_program program =
      clCreateProgramWithSource(context, 1, (const char **)&work_source, NULL, &error);
  work_check(error);
  work_check(clBuildProgram(program, 1, &device, "", NULL, NULL));
  cl_kernel kernels[2] = {clCreateKernel(program, "grow", NULL),
                          clCreateKernel(program, "fold", NULL)};
  cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof sink, sink, &error);
  work_check(error);
  for (int i = 0; i < work_launches; i++) {
    cl_kernel kernel = kernels[i % 3 == 2];
    cl_int trips = who + 1 + i % 2;
    size_t global = 64 * ((size_t)who + 1), local = 64;
    work_check(clSetKernelArg(kernel, 0, sizeof trips, &trips));
    work_check(clSetKernelArg(kernel, 1, sizeof buffer, &buffer));
    xpuprof_window_begin("step");
    pthread_barrier_wait(&work_start);
    spin(1000 * (who + 1) + i);
    pthread_barrier_wait(&work_end);
    work_check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    xpuprof_window_end("step");
    if (after_launch) after_launch();
  }
  pthread_join(beside, NULL);
  work_check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof sink, sink, 0, NULL, NULL));
  for (int i = 0; i < 8; i++) sum += sink[i];
  return sum;
}

#endif
