/* SPDX-License-Identifier: Apache-2.0 */
/* A function of the program that the driver calls when it has built: it spins, and builds a program
 * itself. The context has a function for errors. */
#include "../../native/programs/cpu_spin.h"
#include "one_queue.h"

static const char *SOURCE = "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }\n";
static const char *WRONG = "kernel void twice(global int *x) { y = x; }\n";

static int called;

static void CL_CALLBACK on_build(cl_program made, void *rounds) {
  (void)made;
  called++;
  spin((long)rounds);
  cl_program own = program_of(SOURCE);
  check(clBuildProgram(own, 1, &device, "-DWITHIN=1", NULL, NULL));
  clReleaseProgram(own);
}

static void CL_CALLBACK on_error(const char *text, const void *data, size_t size, void *user) {
  (void)text, (void)data, (void)size, (void)user;
}

static void launch(void) {
  cl_int error;
  const size_t global = 64;
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 256, NULL, &error);
  check(error);
  cl_kernel kernel = kernel_of("twice");
  check(clSetKernelArg(kernel, 0, sizeof memory, &memory));
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
  check(clFinish(queue));
  clReleaseKernel(kernel);
  clReleaseMemObject(memory);
}

int main(void) {
  open_queue(on_error);
  program = program_of(SOURCE);
  cl_program wrong = program_of(WRONG);
  check(clBuildProgram(program, 1, &device, NULL, on_build, (void *)1000));
  cl_int error = clBuildProgram(wrong, 1, &device, NULL, on_build, (void *)200);
  clReleaseProgram(wrong);
  launch();
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  printf("build %d, called %d\n", error, called);
  return 0;
}
