/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that launches and waits for ever is cancelled; the program then ends. Before that it
 * asks for the times of an event whose queue, without profiling, is released. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "one_queue.h"

static const char *source =
    "kernel void sum(global int *a, int n) { int s = 0;"
    " for (int i = 0; i < (a[0] & n); i++) s += i % 7; a[1] = s; }";
static cl_kernel kernel;
static atomic_int waits;

static void launch(cl_event *event) {
  size_t one = 1;
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, event));
  check(clFinish(queue));
}

static void *launch_and_wait(void *never) {
  cl_event event = never;
  launch(NULL);
  waits = 1;
  for (;;) clWaitForEvents(1, &event);
  return NULL;
}

int main(void) {
  cl_event event;
  cl_command_queue lasting;
  cl_int error, n = 4095, given[2] = {4095, 0};
  cl_ulong end;
  pthread_t thread;
  void *result;
  set_up(source);
  kernel = kernel_of("sum");
  cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof given, given, &error);
  check(error);
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
  check(clSetKernelArg(kernel, 1, sizeof n, &n));
  lasting = queue;
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error);
  launch(&event);
  check(clReleaseCommandQueue(queue));
  queue = lasting;
  error = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
  printf("times of the event: %d\n", error);
  event = clCreateUserEvent(context, &error);
  check(error);
  pthread_create(&thread, NULL, launch_and_wait, event);
  while (!waits) usleep(1000);
  usleep(100000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled: %d\n", result == PTHREAD_CANCELED);
  return 7;
}
