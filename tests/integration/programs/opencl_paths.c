/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to build a kernel and allocate its memory, one per case: `opencl_paths CASE`. A case prints
 * "no ..." if the device does not support it. A test can model all launches of kernel `trips`. */
#include "opencl_set_up.h"

static void trips_on(cl_program from, const char *title) {
  cl_kernel kernel = kernel_of(from, "trips");
  must(clSetKernelArg(kernel, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink, &sink), "argument 1");
  must(run_1d(queue, kernel, 640, 64), "launch");
  clReleaseKernel(kernel);
  show_sink(title);
}

static size_t read_file(const char *path, unsigned char *bytes, size_t room) {
  FILE *file = fopen(path, "rb");
  if (!file) must(-1, path);
  size_t size = fread(bytes, 1, room, file);
  fclose(file);
  return size;
}

/* SPIR-V from the file $MODULE: as it is, and with its specialisation constant 7 set. */
static void il(void) {
  static unsigned char bytes[1 << 20];
  char version[256] = "";
  cl_int error;
  clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof version, version, NULL);
  if (!strstr(version, "SPIR-V")) {
    printf("no intermediate language\n");
    return;
  }
  size_t size = read_file(getenv("MODULE"), bytes, sizeof bytes);
  for (int times = 0; times <= 3; times += 3) {
    cl_program own = clCreateProgramWithIL(context, bytes, size, &error);
    must(error, "from IL");
    if (times) must(clSetProgramSpecializationConstant(own, 7, sizeof times, &times), "constant");
    must(clBuildProgram(own, 1, &device, "", NULL, NULL), "build");
    trips_on(own, "il");
    clReleaseProgram(own);
  }
}

/* A library, linked to a program that uses it; both released before the launch. */
static void library(void) {
  static const char *const parts[2] = {
      "int rounds(int n) { int s = 0; for (int k = 0; k < n; k++) s++; return s; }\n",
      "int rounds(int n);\n"
      "kernel void trips(global const int *n, global int *sink) {\n"
      "  int i = get_global_id(0);\n"
      "  for (int k = rounds(n[i]); k > 0; k--) atomic_inc(&sink[i & 7]);\n"
      "}\n"};
  cl_int error;
  cl_program compiled[2];
  for (int p = 0; p < 2; p++) {
    compiled[p] = clCreateProgramWithSource(context, 1, (const char **)&parts[p], NULL, &error);
    must(clCompileProgram(compiled[p], 1, &device, "", 0, NULL, NULL, NULL, NULL), "compile");
  }
  cl_program of =
      clLinkProgram(context, 1, &device, "-create-library", 1, compiled, NULL, NULL, &error);
  must(error, "library");
  cl_program both[2] = {compiled[1], of};
  cl_program linked = clLinkProgram(context, 1, &device, "", 2, both, NULL, NULL, &error);
  must(error, "link");
  for (int p = 0; p < 2; p++) clReleaseProgram(compiled[p]);
  clReleaseProgram(of);
  trips_on(linked, "library");
}

/* A program made from a binary that holds LLVM bitcode or SPIR-V: the file $MODULE. */
static void module(void) {
  static unsigned char bytes[1 << 20];
  const unsigned char *at = bytes;
  cl_int error, status;
  size_t size = read_file(getenv("MODULE"), bytes, sizeof bytes);
  cl_program own = clCreateProgramWithBinary(context, 1, &device, &size, &at, &status, &error);
  if (error != CL_SUCCESS) {
    printf("no modules as binaries\n");
    return;
  }
  must(clBuildProgram(own, 1, &device, "-x spir -spir-std=1.2", NULL, NULL), "build");
  trips_on(own, "module");
}

static void clone(void) {
  cl_int error;
  cl_kernel kernel = trips_kernel();
  cl_kernel copy = clCloneKernel(kernel, &error);
  if (!copy) {
    printf("no clones\n");
    return;
  }
  must(run_1d(queue, copy, 640, 64), "launch of the clone");
  static int ones[MAX_ITEMS];
  for (int i = 0; i < MAX_ITEMS; i++) ones[i] = 1;
  cl_mem other = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof ones, ones, &error);
  must(clSetKernelArg(copy, 0, sizeof other, &other), "argument 0");
  must(run_1d(queue, kernel, 640, 64), "launch"); /* still has its own arguments */
  clReleaseKernel(kernel);
  must(clSetKernelArg(copy, 0, sizeof input, &input), "argument 0");
  must(run_1d(queue, copy, 640, 64), "launch of the clone");
  show_sink("clone");
}

static void task(void) {
  cl_program own = build(
      "kernel void fourth(global const int *n, global int *sink) {\n"
      "  for (int k = 0; k < n[4]; k++) atomic_inc(&sink[k & 7]);\n"
      "}\n",
      "");
  cl_kernel kernel = kernel_of(own, "fourth");
  must(clSetKernelArg(kernel, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink, &sink), "argument 1");
  for (int i = 0; i < 3; i++) must(clEnqueueTask(queue, kernel, 0, NULL, NULL), "task");
  show_sink("task");
}

static void built_in(void) {
  char names[1024] = "";
  cl_int error;
  clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, sizeof names, names, NULL);
  if (!strstr(names, "pocl.add.i8")) {
    printf("no built-in kernel\n");
    return;
  }
  cl_program own = clCreateProgramWithBuiltInKernels(context, 1, &device, "pocl.add.i8", &error);
  must(error, "built-in kernels");
  if (clBuildProgram(own, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
    printf("no sources of its built-in kernels\n"); /* Debian's PoCL names them nevertheless */
    return;
  }
  cl_kernel kernel = kernel_of(own, "pocl.add.i8");
  signed char values[64];
  for (int i = 0; i < 64; i++) values[i] = (signed char)i;
  cl_mem a = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  cl_mem b = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  cl_mem sum = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof values, NULL, &error);
  must(clSetKernelArg(kernel, 0, sizeof a, &a), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof b, &b), "argument 1");
  must(clSetKernelArg(kernel, 2, sizeof sum, &sum), "argument 2");
  must(run_1d(queue, kernel, 64, 16), "launch");
  must(clEnqueueReadBuffer(queue, sum, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL), "read");
  printf("built-in: %d %d %d\n", values[0], values[10], values[63]);
}

static int freed;
static void CL_CALLBACK on_free(cl_command_queue on, cl_uint n, void **pointers, void *user) {
  for (cl_uint i = 0; i < n; i++) clSVMFree(context, pointers[i]);
  freed += on == queue && user == (void *)&freed ? (int)n : 0;
}

/* Shared virtual memory as an argument, and memory reached only by a pointer in it. */
static void svm(void) {
  static const char *const text =
      "struct box { global const int *n; global int *sink; };\n"
      "kernel void trips(global const struct box *box) {\n"
      "  int i = get_global_id(0);\n"
      "  for (int k = 0; k < box->n[i]; k++) atomic_inc(&box->sink[i & 7]);\n"
      "}\n";
  struct box {
    cl_int *n, *sink;
  } *box;
  cl_device_svm_capabilities able = 0;
  clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof able, &able, NULL);
  if (!(able & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER)) {
    printf("no shared virtual memory\n");
    return;
  }
  cl_int *n = clSVMAlloc(context, CL_MEM_READ_WRITE, 4096 * sizeof *n, 0);
  cl_int *own_sink = clSVMAlloc(context, CL_MEM_READ_WRITE, 8 * sizeof *own_sink, 0);
  box = clSVMAlloc(context, CL_MEM_READ_WRITE, sizeof *box, 0);
  must(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, n, 4096 * sizeof *n, 0, NULL, NULL), "map");
  must(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, box, sizeof *box, 0, NULL, NULL), "map");
  for (int i = 0; i < 4096; i++) n[i] = (int)((unsigned)i * 7919u % 13u);
  *box = (struct box){n, own_sink};
  must(clEnqueueSVMUnmap(queue, n, 0, NULL, NULL), "unmap");
  must(clEnqueueSVMUnmap(queue, box, 0, NULL, NULL), "unmap");
  cl_int zero = 0;
  must(clEnqueueSVMMemFill(queue, own_sink, &zero, sizeof zero, 8 * sizeof zero, 0, NULL, NULL),
       "fill");
  cl_kernel kernel = kernel_of(build(text, ""), "trips");
  must(clSetKernelArgSVMPointer(kernel, 0, box), "argument 0");
  void *reached[] = {n, own_sink};
  cl_bool fine = CL_TRUE;
  /* Before the first launch, and again after it, when our kernel exists. */
  for (int round = 0; round < 2; round++) {
    cl_int told =
        clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof reached, reached);
    cl_int system =
        clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, sizeof fine, &fine);
    printf("exec info: %d %d\n", told, system);
    must(run_1d(queue, kernel, 640, 64), "launch");
  }
  cl_int values[8];
  must(clEnqueueSVMMemcpy(queue, CL_TRUE, values, own_sink, sizeof values, 0, NULL, NULL), "copy");
  printf("svm: %d %d %d\n", values[0], values[3], values[7]);
  void *all[] = {n, own_sink, box};
  must(clEnqueueSVMFree(queue, 3, all, on_free, &freed, 0, NULL, NULL), "free");
  must(clFinish(queue), "finish");
  for (int i = 0; i < 2000 && !freed; i++) usleep(1000);
  printf("freed %d\n", freed);
}

/* Pointers to any address space, and functions over the work-group (OpenCL C 2.0). */
static void generic(void) {
  cl_bool able = CL_FALSE;
  clGetDeviceInfo(device, CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, sizeof able, &able, NULL);
  if (!able) {
    printf("no generic address space\n");
    return;
  }
  cl_program own = build(
      "int sum(int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }\n"
      "kernel void trips(global int *n, global int *sink) {\n"
      "  int i = get_global_id(0), mine[2] = {n[i], 0};\n"
      "  local int ours[64];\n"
      "  ours[get_local_id(0)] = n[i];\n"
      "  work_group_barrier(CLK_LOCAL_MEM_FENCE);\n"
      "  int *p = i & 1 ? (int *)mine : i & 2 ? (int *)&ours[get_local_id(0)] : (int *)(n + i);\n"
      "  int most = work_group_reduce_max(p[0]), rounds = sum(p, most > 12);\n"
      "  for (int k = 0; k < p[0] - rounds; k++) atomic_inc(&sink[i & 7]);\n"
      "}\n",
      "-cl-std=CL2.0");
  trips_on(own, "generic");
}

static void sub_groups(void) {
  cl_uint most = 0;
  clGetDeviceInfo(device, CL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof most, &most, NULL);
  if (!most) {
    printf("no sub-groups\n");
    return;
  }
  cl_program own = build(
      "kernel void groups(global const int *n, global int *sink) {\n"
      "  int i = get_global_id(0);\n"
      "  int most = sub_group_reduce_max(n[i]);\n"
      "  int below = sub_group_scan_exclusive_add(n[i]);\n"
      "  if (sub_group_any(n[i] == 12)) atomic_add(&sink[0], 1);\n"
      "  for (int k = 0; k < most; k++) atomic_add(&sink[1 + (k & 1)], below);\n"
      "  if (get_sub_group_local_id() == 0) atomic_add(&sink[3], get_sub_group_size());\n"
      "  atomic_add(&sink[4], sub_group_broadcast(n[i], 0));\n"
      "}\n",
      "-cl-std=CL3.0");
  cl_kernel kernel = kernel_of(own, "groups");
  size_t size = 0, local = 64;
  must(clSetKernelArg(kernel, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink, &sink), "argument 1");
  must(clGetKernelSubGroupInfo(kernel, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE,
                               sizeof local, &local, sizeof size, &size, NULL),
       "sub-group size");
  must(run_1d(queue, kernel, 640, 64), "launch");
  must(run_1d(queue, kernel, 100, 50), "launch");
  printf("sub-group size %zu\n", size);
  show_sink("sub-groups");
}

/* Program-scope variables: all kernels must see the same ones. */
static void variables(void) {
  cl_int error;
  const char *text =
      "global int kept = 5;\n"
      "kernel void add(void) { atomic_add(&kept, 3); }\n"
      "kernel void show(global int *sink, int n) {\n"
      "  for (int k = 0; k < n; k++) sink[k] = kept + k;\n"
      "}\n";
  cl_program own = clCreateProgramWithSource(context, 1, &text, NULL, &error);
  if (clBuildProgram(own, 1, &device, "-cl-std=CL3.0", NULL, NULL) != CL_SUCCESS) {
    printf("no variables of programs\n");
    return;
  }
  cl_kernel add = kernel_of(own, "add"), show = kernel_of(own, "show");
  int n = 8;
  must(run_1d(queue, add, 1, 1), "launch");
  must(clSetKernelArg(show, 0, sizeof sink, &sink), "argument 0");
  must(clSetKernelArg(show, 1, sizeof n, &n), "argument 1");
  must(run_1d(queue, show, 1, 1), "launch");
  show_sink("variables");
}

/* One context over all devices of the platform, one thread and one kernel object a device, on
 * buffers of each. */
static cl_device_id devices[8];
static cl_context together;
static cl_program common;
static int results[8][8];

static void *on_device_thread(void *argument) {
  long d = (long)argument;
  static const int zeros[8];
  static int n[MAX_ITEMS];
  cl_int error;
  for (int i = 0; i < MAX_ITEMS; i++) n[i] = (int)((unsigned)i * 7919u % 13u);
  cl_command_queue own = clCreateCommandQueue(together, devices[d], 0, &error);
  must(error, "queue");
  cl_mem from = clCreateBuffer(together, CL_MEM_COPY_HOST_PTR, sizeof n, n, &error);
  cl_mem to = clCreateBuffer(together, CL_MEM_COPY_HOST_PTR, sizeof zeros, (void *)zeros, &error);
  cl_kernel kernel = kernel_of(common, "trips");
  must(clSetKernelArg(kernel, 0, sizeof from, &from), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof to, &to), "argument 1");
  for (int i = 0; i < 20; i++) must(run_1d(own, kernel, 640, 64), "launch");
  must(clEnqueueReadBuffer(own, to, CL_TRUE, 0, sizeof results[d], results[d], 0, NULL, NULL),
       "read");
  clReleaseKernel(kernel);
  clReleaseCommandQueue(own);
  return NULL;
}

static void devices_at_once(void) {
  cl_int error;
  cl_uint n = 0;
  pthread_t thread[8];
  must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, devices, &n), "devices");
  if (n < 2) {
    printf("no second device\n");
    return;
  }
  together = clCreateContext(NULL, n, devices, NULL, NULL, &error);
  must(error, "context");
  common = clCreateProgramWithSource(together, 1, (const char **)&SOURCE, NULL, &error);
  must(clBuildProgram(common, n, devices, "-DSTEP=2", NULL, NULL), "build");
  for (long d = 0; d < (long)n; d++) pthread_create(&thread[d], NULL, on_device_thread, (void *)d);
  for (cl_uint d = 0; d < n; d++) pthread_join(thread[d], NULL);
  /* One kernel object, launched on one device after the other. */
  cl_mem from = clCreateBuffer(together, CL_MEM_COPY_HOST_PTR, sizeof results, results, &error);
  cl_mem to = clCreateBuffer(together, CL_MEM_COPY_HOST_PTR, sizeof results, results, &error);
  cl_kernel kernel = kernel_of(common, "straight");
  must(clSetKernelArg(kernel, 0, sizeof to, &to), "argument 0");
  for (cl_uint d = 0; d < n; d++) {
    cl_command_queue own = clCreateCommandQueue(together, devices[d], 0, &error);
    must(run_1d(own, kernel, 64, 32), "launch");
    must(clFinish(own), "finish");
    printf("device %u: %d %d\n", d, results[d][0], results[d][7]);
  }
  (void)from;
}

/* References to a kernel whose launch has ended. PoCL's thread may give back the launch's own after
 * the event is complete: a native run has seen 2 at once. */
static cl_uint references(cl_kernel kernel) {
  cl_uint count = 0;
  for (int i = 0; i < 1000; i++) {
    must(clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof count, &count, NULL), "query");
    if (count == 1) break;
    usleep(1000);
  }
  return count;
}

/* Queries of a program about its objects after launches: ours must not show. */
static void questions(void) {
  cl_kernel kernel = trips_kernel();
  cl_uint arguments = 0, of_program = 0, of_buffer = 0, kernels = 0;
  size_t n_kernels = 0, groups = 0;
  char names[256] = "", attributes[256] = "", argument[64] = "";
  cl_event event;
  size_t global = 640, local = 64;
  must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, &event), "launch");
  must(clWaitForEvents(1, &event), "wait");
  clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);
  cl_uint of_kernel = references(kernel);
  clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, sizeof attributes, attributes, NULL);
  clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof of_program, &of_program, NULL);
  clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof n_kernels, &n_kernels, NULL);
  clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL);
  clGetMemObjectInfo(sink, CL_MEM_REFERENCE_COUNT, sizeof of_buffer, &of_buffer, NULL);
  clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof groups, &groups, NULL);
  int fourth = clSetKernelArg(kernel, 2, sizeof sink, &sink);
  int told = clGetKernelArgInfo(kernel, 1, CL_KERNEL_ARG_NAME, sizeof argument, argument, NULL);
  int untold = clGetKernelArgInfo(kernel, 2, CL_KERNEL_ARG_NAME, sizeof argument, argument, NULL);
  clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof kernels, &kernels, NULL);
  printf("arguments %u, references: kernel %u, program %u, buffer %u\n", arguments, of_kernel,
         of_program, of_buffer);
  printf("kernels %zu: %s; attributes '%s'; group %zu; devices %u\n", n_kernels, names, attributes,
         groups, kernels);
  printf("arguments: %d %d %d '%s'\n", fourth, told, untold, argument);
  show_sink("questions");
}

static const struct one_case CASES[] = {{"il", il},
                                        {"library", library},
                                        {"module", module},
                                        {"clone", clone},
                                        {"task", task},
                                        {"built_in", built_in},
                                        {"svm", svm},
                                        {"generic", generic},
                                        {"sub_groups", sub_groups},
                                        {"variables", variables},
                                        {"devices", devices_at_once},
                                        {"questions", questions}};

int main(int argc, char **argv) {
  return run_case(CASES, sizeof CASES / sizeof *CASES, argc, argv);
}
