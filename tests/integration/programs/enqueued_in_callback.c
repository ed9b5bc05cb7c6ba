/* SPDX-License-Identifier: Apache-2.0 */
/* The callback of one kernel enqueues another, which was never launched before. */
#include <stdatomic.h>
#include <unistd.h>

#include "one_queue.h"

enum { ITEMS = 256 };
static const char *source =
    "kernel void scale(global int *a) { size_t i = get_global_id(0); a[i] = 3 * a[i] + 1; }"
    "kernel void sum(global int *a) { size_t i = get_global_id(0); int s = 0;"
    " for (int j = 0; j < a[i]; j++) s += j * j % 7; a[i] = s; }";
static cl_kernel sum;
static atomic_int enqueued;

static void launch(cl_kernel kernel, cl_event *event) {
  size_t items = ITEMS, group = 32;
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, event));
}

static void CL_CALLBACK when_scaled(cl_event event, cl_int status, void *user) {
  (void)event, (void)status, (void)user;
  launch(sum, NULL);
  enqueued = 1;
}

int main(void) {
  cl_int error, numbers[ITEMS], total = 0;
  cl_event event;
  for (int i = 0; i < ITEMS; i++) numbers[i] = i % 5;
  set_up(source);
  cl_kernel scale = kernel_of("scale");
  sum = kernel_of("sum");
  cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof numbers, numbers, &error);
  check(error);
  check(clSetKernelArg(scale, 0, sizeof buffer, &buffer));
  check(clSetKernelArg(sum, 0, sizeof buffer, &buffer));
  launch(scale, &event);
  check(clSetEventCallback(event, CL_COMPLETE, when_scaled, NULL));
  check(clFinish(queue));
  while (!enqueued) usleep(1000);
  check(clFinish(queue));
  check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof numbers, numbers, 0, NULL, NULL));
  for (int i = 0; i < ITEMS; i++) total += (i + 1) * numbers[i];
  printf("%d\n", total);
  return 0;
}
