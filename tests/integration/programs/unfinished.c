/* SPDX-License-Identifier: Apache-2.0 */
/* Ends while its launches, of a second together, wait in the queue. */
#include "one_queue.h"

int main(void) {
  size_t items = 4096;
  set_up(
      "kernel void turn(global int *a, int n) {\n"
      "  int i = get_global_id(0), x = i;\n"
      "  for (int k = 0; k < n; k++) x = x * 1103515245 + (x >> 3);\n"
      "  a[i] = x;\n"
      "}\n");
  cl_kernel turn = kernel_of("turn");
  cl_int turns = 1000, error;
  cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE, items * sizeof(cl_int), NULL, &error);
  check(error);
  check(clSetKernelArg(turn, 0, sizeof a, &a));
  check(clSetKernelArg(turn, 1, sizeof turns, &turns));
  check(clEnqueueNDRangeKernel(queue, turn, 1, NULL, &items, NULL, 0, NULL, NULL));
  check(clFinish(queue));
  turns = 10000;
  check(clSetKernelArg(turn, 1, sizeof turns, &turns));
  for (int i = 0; i < 20; i++)
    check(clEnqueueNDRangeKernel(queue, turn, 1, NULL, &items, NULL, 0, NULL, NULL));
  check(clFlush(queue));
  exit(7);
}
