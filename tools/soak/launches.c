/* SPDX-License-Identifier: Apache-2.0 */
/* launches N: N launches of an empty kernel, a thousand at a time. Prints the kilobytes of
 * anonymous memory after a tenth of them and at the end. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

static const char *source = "kernel void nothing(void) {}";

static void check(cl_int error) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "OpenCL error %d\n", error);
  exit(99);
}

static long anonymous_kb(void) {
  char line[256];
  long found = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "RssAnon: %ld", &found) == 1) break;
  if (file) fclose(file);
  return found;
}

int main(int argc, char **argv) {
  long launches = argc > 1 ? atol(argv[1]) : 100000;
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL));
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  check(error);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error);
  check(clBuildProgram(program, 1, &device, "", NULL, NULL));
  cl_kernel kernel = clCreateKernel(program, "nothing", &error);
  check(error);
  size_t one = 1;
  long early = 0;
  for (long i = 0; i < launches; i++) {
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
    if (i % 1000 == 999) check(clFinish(queue));
    if (i == launches / 10) early = anonymous_kb();
  }
  check(clFinish(queue));
  printf("%ld %ld\n", early, anonymous_kb());
  return 0;
}
