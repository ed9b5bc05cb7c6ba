/* SPDX-License-Identifier: Apache-2.0 */
/* Two launches, one that waits for an event which fails, and another two on a new queue. */
#include "one_queue.h"

static cl_kernel add;
static size_t items = 1024;

static void launch(cl_uint waits, const cl_event *on, cl_event *event) {
  check(clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, NULL, waits, on, event));
}

int main(void) {
  cl_int error, failure = -5;
  cl_event fails, event;
  set_up("kernel void add(global int *a) { a[get_global_id(0)]++; }");
  add = kernel_of("add");
  cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE, items * sizeof(cl_int), NULL, &error);
  check(error);
  check(clSetKernelArg(add, 0, sizeof a, &a));
  for (int i = 0; i < 2; i++) launch(0, NULL, NULL);
  check(clFinish(queue));
  fails = clCreateUserEvent(context, &error);
  check(error);
  launch(1, &fails, &event);
  check(clSetUserEventStatus(fails, failure));
  printf("%d\n", clWaitForEvents(1, &event) != CL_SUCCESS);
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error);
  for (int i = 0; i < 2; i++) launch(0, NULL, NULL);
  check(clFinish(queue));
  fflush(stdout);
  _Exit(0); /* Intel's runtime may crash at exit after such an event */
}
