// SPDX-License-Identifier: Apache-2.0
/* A libcudart that runs a CUDA program's kernels as OpenCL on a CPU device: the program's OpenCL
 * twin, with the same launches. TWIN_KERNELS names the file that cuda_twin.py made of the kernels.
 * Device memory is fine-grained shared memory, so the host copies. */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned x, y, z;
} dim3;

enum { KERNELS = 256 };
static struct {
  const void *function;
  char name[256];
  cl_kernel kernel;
} kernels[KERNELS];
static int n_kernels;
static cl_context context;
static cl_command_queue queue;
static cl_device_id device;
static struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} configured;

static void check(cl_int status, const char *what) {
  if (status == CL_SUCCESS) return;
  fprintf(stderr, "twin: %s: error %d\n", what, status);
  exit(1);
}

static void start(void) {
  if (context) return;
  cl_platform_id platform;
  cl_int status;
  check(clGetPlatformIDs(1, &platform, NULL), "platform");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL), "device");
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  check(status, "context");
  queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
  check(status, "queue");
}

/* The plain name in `_Z<length><name>...`, which the build replaces by the mangled one. */
static void define(char *options, const char *mangled) {
  char *rest;
  long length = strtol(mangled + 2, &rest, 10);
  if (strncmp(mangled, "_Z", 2) == 0)
    sprintf(options + strlen(options), " -D %.*s=%s", (int)length, rest, mangled);
}

static void build(void) {
  static char text[1 << 18], options[1 << 16] = "-cl-std=CL2.0 -cl-kernel-arg-info";
  const char *name = getenv("TWIN_KERNELS"), *source = text;
  FILE *file = name ? fopen(name, "r") : NULL;
  if (!file || !fread(text, 1, sizeof text - 1, file)) check(-1, "TWIN_KERNELS");
  fclose(file);
  for (int i = 0; i < n_kernels; i++) define(options, kernels[i].name);
  cl_int status;
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  check(status, "program");
  if (clBuildProgram(program, 1, &device, options, NULL, NULL) != CL_SUCCESS) {
    static char log[1 << 16];
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    fprintf(stderr, "%s\n", log);
    exit(1);
  }
  for (int i = 0; i < n_kernels; i++)
    kernels[i].kernel = clCreateKernel(program, kernels[i].name, &status);
}

static void set_argument(cl_kernel kernel, cl_uint i, const void *value) {
  cl_kernel_arg_address_qualifier where;
  char type[64];
  check(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL),
        "argument");
  check(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL),
        "argument");
  if (where == CL_KERNEL_ARG_ADDRESS_GLOBAL)
    check(clSetKernelArgSVMPointer(kernel, i, *(void *const *)value), "argument");
  else
    check(clSetKernelArg(kernel, i, strcmp(type, "double") == 0 ? 8 : 4, value), "argument");
}

int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                     void *stream) {
  (void)shared, (void)stream;
  start();
  int at = 0;
  while (at < n_kernels && kernels[at].function != function) at++;
  if (at == n_kernels) check(-1, "kernel");
  if (!kernels[at].kernel) build();
  cl_kernel kernel = kernels[at].kernel;
  cl_uint n;
  check(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL), "kernel");
  for (cl_uint i = 0; i < n; i++) set_argument(kernel, i, arguments[i]);
  size_t group[] = {block.x, block.y, block.z};
  size_t all[] = {group[0] * grid.x, group[1] * grid.y, group[2] * grid.z};
  check(clEnqueueNDRangeKernel(queue, kernel, 3, NULL, all, group, 0, NULL, NULL), "launch");
  check(clFinish(queue), "launch");
  return 0;
}

/* ---- what nvcc's code calls ------------------------------------------------------------------ */

void **__cudaRegisterFatBinary(void *binary) {
  (void)binary;
  static void *handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterFunction(void **handle, const void *function, char *text, const char *name) {
  (void)handle, (void)text;
  kernels[n_kernels].function = function;
  snprintf(kernels[n_kernels++].name, sizeof kernels->name, "%s", name);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
  configured.grid = grid, configured.block = block;
  configured.shared = shared, configured.stream = stream;
  return 0;
}
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream) {
  *grid = configured.grid, *block = configured.block;
  *shared = configured.shared, *stream = configured.stream;
  return 0;
}
int __cudaGetKernel(const void **kernel, const void *function) {
  *kernel = function;
  return 0;
}
int __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                       void *stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

/* ---- what programs call ---------------------------------------------------------------------- */

int cudaMalloc(void **at, size_t bytes) {
  start();
  *at = clSVMAlloc(context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes, 0);
  return *at ? 0 : 2;
}
int cudaFree(void *at) {
  clSVMFree(context, at);
  return 0;
}
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  (void)kind;
  memcpy(to, from, bytes);
  return 0;
}
int cudaDeviceSynchronize(void) { return 0; }
int cudaGetLastError(void) { return 0; }
const char *cudaGetErrorString(int status) { return status ? "an error" : "no error"; }
int cudaGetDeviceCount(int *n) {
  *n = 1;
  return 0;
}
int cudaStreamCreate(void **stream) {
  *stream = NULL;
  return 0;
}
int cudaStreamSynchronize(void *stream) {
  (void)stream;
  return 0;
}
/* What this library does not have: no program that it is for goes on without it. */
#define MISSING(name) \
  int name(void) { return 801; }
MISSING(cudaGetDeviceProperties)
MISSING(cudaGraphInstantiate)
MISSING(cudaGraphLaunch)
MISSING(cudaStreamBeginCapture)
MISSING(cudaStreamEndCapture)
