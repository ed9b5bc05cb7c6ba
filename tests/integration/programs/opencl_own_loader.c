// SPDX-License-Identifier: Apache-2.0
/* A program with an OpenCL loader of its own, as one that links Khronos's without layers: it asks
 * the drivers of OCL_ICD_FILENAMES and of /etc/OpenCL/vendors, and calls through the objects'
 * dispatch tables. It builds a program before its first and before its fourth launch. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL(object) (*(cl_icd_dispatch **)(object))

static cl_platform_id platform;

static void ask(const char *library) {
  void *driver = dlopen(library, RTLD_NOW);
  void *(*find)(const char *) =
      driver ? (void *(*)(const char *))dlsym(driver, "clGetExtensionFunctionAddress") : NULL;
  cl_int (*platforms)(cl_uint, cl_platform_id *, cl_uint *) =
      find ? (cl_int(*)(cl_uint, cl_platform_id *, cl_uint *))find("clIcdGetPlatformIDsKHR") : NULL;
  cl_uint n = 0;
  if (platforms && !platform && platforms(0, NULL, &n) == CL_SUCCESS && n)
    platforms(1, &platform, NULL);
  else if (driver)
    dlclose(driver);
}

static void must(cl_int error, const char *what) {
  if (error == CL_SUCCESS) return;
  printf("%s: %d\n", what, error);
  exit(1);
}

int main(void) {
  glob_t vendors;
  char line[512];
  char *more = getenv("OCL_ICD_FILENAMES");
  for (char *name = more ? strtok(more, ":") : NULL; name; name = strtok(NULL, ":")) ask(name);
  glob("/etc/OpenCL/vendors/*.icd", 0, NULL, &vendors);
  for (size_t i = 0; i < vendors.gl_pathc; i++) {
    FILE *file = fopen(vendors.gl_pathv[i], "r");
    if (file && fgets(line, sizeof line, file)) ask(strtok(line, "\n"));
    if (file) fclose(file);
  }
  cl_device_id device;
  cl_int error;
  if (!platform) return puts("no platform"), 0;
  must(CALL(platform)->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
  cl_context context = CALL(device)->clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  must(error, "context");
  cl_command_queue queue = CALL(context)->clCreateCommandQueue(context, device, 0, &error);
  must(error, "queue");
  int values[256] = {0}, sum = 0;
  cl_mem buffer = CALL(context)->clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                sizeof values, values, &error);
  must(error, "buffer");
  cl_kernel kernel = NULL;
  for (int launch = 0; launch < 6; launch++) {
    if (launch % 3 == 0) {
      const char *source =
          "kernel void add(global int *p) {\n"
          "  if (p[get_global_id(0)] < 100) p[get_global_id(0)] += STEP; }";
      snprintf(line, sizeof line, "-DSTEP=%d", launch + 1);
      cl_program program =
          CALL(context)->clCreateProgramWithSource(context, 1, &source, NULL, &error);
      must(error, "program");
      must(CALL(program)->clBuildProgram(program, 1, &device, line, NULL, NULL), "build");
      kernel = CALL(program)->clCreateKernel(program, "add", &error);
      must(error, "kernel");
      must(CALL(kernel)->clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "argument");
    }
    size_t global = 256, local = 64;
    must(
        CALL(queue)->clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL),
        "launch");
  }
  must(CALL(queue)->clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL,
                                        NULL),
       "read");
  for (int i = 0; i < 256; i++) sum += values[i];
  printf("sum %d\n", sum);
  return 0;
}
