/* SPDX-License-Identifier: Apache-2.0 */
/* Builds programs of two kernels, of which one counts under xpuprof, and launches each kernel once:
 * many_programs SEED N. Another seed makes other sources, which no cache holds.
 *   cc -O1 many_programs.c -o many_programs -lOpenCL */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 4096, GROUP = 64 };

static const char source[] =
    "kernel void scale(global float *a) {\n"
    "  size_t i = get_global_id(0);\n"
    "  a[i] = a[i] * 0.5f + %d.0f + %d;\n"
    "}\n"
    "kernel void loop(global float *a) {\n"
    "  size_t i = get_global_id(0);\n"
    "  float s = a[i];\n"
    "  for (int k = 0; k < 8; k++)\n"
    "    if (sin(s) > 0) s += sin(s) * %d.0f;\n"
    "  a[i] = s;\n"
    "}\n";

static void check(const char *what, cl_int error) {
  if (!error) return;
  fprintf(stderr, "%s: error %d\n", what, error);
  exit(1);
}

int main(int argc, char **argv) {
  const int seed = argc > 1 ? atoi(argv[1]) : 0, n = argc > 2 ? atoi(argv[2]) : 1;
  const size_t items = ITEMS, group = GROUP;
  static const char *const kernels[] = {"scale", "loop"};
  static float values[ITEMS];
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check("clGetPlatformIDs", clGetPlatformIDs(1, &platform, NULL));
  check("clGetDeviceIDs", clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check("clCreateContext", error);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  check("clCreateCommandQueue", error);
  cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  check("clCreateBuffer", error);
  for (int i = 0; i < n; i++) {
    char text[2 * sizeof source];
    const char *one = text;
    snprintf(text, sizeof text, source, seed, i, seed);
    cl_program program = clCreateProgramWithSource(context, 1, &one, NULL, &error);
    check("clCreateProgramWithSource", error);
    check("clBuildProgram", clBuildProgram(program, 1, &device, "", NULL, NULL));
    for (int k = 0; k < 2; k++) {
      cl_kernel kernel = clCreateKernel(program, kernels[k], &error);
      check("clCreateKernel", error);
      check("clSetKernelArg", clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
      check("clEnqueueNDRangeKernel",
            clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
      check("clFinish", clFinish(queue));
      clReleaseKernel(kernel);
    }
    clReleaseProgram(program);
  }
  clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
  printf("%g\n", (double)values[ITEMS - 1]);
  return 0;
}
