/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is linked with one OpenCL loader, as a library of it with another:
 * `opencl_two_loaders OTHER`. The other one first gets objects before anyone has asked it for
 * platforms, then gives platforms itself. Launch n has 64 n work-items. */
#include <dlfcn.h>

#include "opencl_set_up.h"

static void *other;
#define OTHER(name) ((__typeof__(&(name)))dlsym(other, #name))

static size_t launches;

static void launch(__typeof__(&clEnqueueNDRangeKernel) function, cl_kernel kernel) {
  const size_t global = 64 * ++launches, local = 64;
  must(function(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), "launch");
}

int main(int argc, char **argv) {
  cl_int error;
  cl_uint n = 0;
  other = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!other) must(-1, "other loader");
  set_up();
  cl_kernel kernel = trips_kernel();
  launch(clEnqueueNDRangeKernel, kernel);

  launch(OTHER(clEnqueueNDRangeKernel), kernel);
  cl_program built =
      OTHER(clCreateProgramWithSource)(context, 1, (const char *[]){SOURCE}, NULL, &error);
  must(error, "program of the other loader");
  must(OTHER(clBuildProgram)(built, 1, &device, "-DSTEP=5", NULL, NULL), "build");
  cl_kernel its = OTHER(clCreateKernel)(built, "straight", &error);
  must(error, "kernel of the other loader");
  must(OTHER(clSetKernelArg)(its, 0, sizeof sink, &sink), "argument");
  launch(OTHER(clEnqueueNDRangeKernel), its);
  launch(clEnqueueNDRangeKernel, its);

  must(OTHER(clGetPlatformIDs)(0, NULL, &n), "platforms of the other loader");
  launch(OTHER(clEnqueueNDRangeKernel), kernel);
  launch(clEnqueueNDRangeKernel, its);
  show_sink("both");

  cl_uint references = 0;
  cl_context any = OTHER(clCreateContextFromType)(NULL, CL_DEVICE_TYPE_ALL, NULL, NULL, &error);
  must(error, "context of no platform");
  must(OTHER(clGetContextInfo)(any, CL_CONTEXT_REFERENCE_COUNT, sizeof n, &references, NULL),
       "info");
  must(clReleaseContext(any), "release");
  const cl_context_properties wrong[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)&n, 0};
  OTHER(clCreateContext)(wrong, 1, &device, NULL, NULL, &error);
  printf("%u platforms, %u references, no such platform: error %d\n", n, references, error);
  return 0;
}
