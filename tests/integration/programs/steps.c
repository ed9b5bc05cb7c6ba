/* SPDX-License-Identifier: Apache-2.0 */
/* steps N [EXIT]: N times kernel `grow`, every third time also kernel `fold`; EXIT is the exit
 * code. VARIANT makes another build of the same program, OTHER another program. */
#include "one_queue.h"

#ifdef OTHER
#define GROW "other"
#define FOLD "another"
#else
#define GROW "grow"
#define FOLD "fold"
#endif

static const char *source = "kernel void " GROW
                            "(global float *x) { size_t i = get_global_id(0);"
                            "  for (int n = 0; n < 2000; n++) x[i] = x[i] * 0.999f + 1.0f; }"
                            "kernel void " FOLD
                            "(global float *x) { size_t i = get_global_id(0);"
                            "  x[i] += x[get_global_size(0) - 1 - i]; }";

static const int variant = 0
#ifdef VARIANT
                           + VARIANT
#endif
    ;

int main(int argc, char **argv) {
  int steps = argc > 1 ? atoi(argv[1]) : 6;
  set_up(source);
  cl_kernel grow = kernel_of(GROW);
  cl_kernel fold = kernel_of(FOLD);
  static float values[4096];
  cl_int error;
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof values,
                                 values, &error);
  check(error);
  check(clSetKernelArg(grow, 0, sizeof buffer, &buffer));
  check(clSetKernelArg(fold, 0, sizeof buffer, &buffer));
  size_t size = 4096;
  for (int i = 0; i < steps; i++) {
    check(clEnqueueNDRangeKernel(queue, grow, 1, NULL, &size, NULL, 0, NULL, NULL));
    if (i % 3 == 2) check(clEnqueueNDRangeKernel(queue, fold, 1, NULL, &size, NULL, 0, NULL, NULL));
    check(clFinish(queue));
  }
  check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL));
  printf("value %g\n", values[0] + variant);
  return argc > 2 ? atoi(argv[2]) : 0;
}
