/* SPDX-License-Identifier: Apache-2.0 */
/* Slices known by construction: 12 times kernel a, 12 times b, 12 times a after a CPU loop. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

static const char *SOURCE =
    "kernel void a(global int *x) { x[get_global_id(0)] += 1; }\n"
    "kernel void b(global int *x) { int i = get_global_id(0);"
    "  for (int j = 0; j < x[i] + 40; j++) x[i] ^= j; }\n";

static volatile int sink;

static void cpu_work(void) {
  for (int i = 0; i < 200000; i++) sink += i;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, 0) ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, 0))
    return 1;
  cl_context context = clCreateContext(0, 1, &device, 0, 0, 0);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, 0);
  cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, 0, 0);
  if (clBuildProgram(program, 1, &device, "", 0, 0)) return 1;
  cl_kernel a = clCreateKernel(program, "a", 0), b = clCreateKernel(program, "b", 0);
  cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, 256 * sizeof(int), 0, 0);
  int zero[256] = {0};
  clEnqueueWriteBuffer(queue, x, CL_TRUE, 0, sizeof zero, zero, 0, 0, 0);
  clSetKernelArg(a, 0, sizeof x, &x);
  clSetKernelArg(b, 0, sizeof x, &x);
  size_t global = 256, local = 64;
  for (int i = 0; i < 36; i++) {
    if (i >= 24) cpu_work();
    if (clEnqueueNDRangeKernel(queue, i / 12 == 1 ? b : a, 1, 0, &global, &local, 0, 0, 0))
      return 1;
    clFinish(queue);
  }
  return 0;
}
