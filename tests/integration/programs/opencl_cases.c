/* SPDX-License-Identifier: Apache-2.0 */
/* One OpenCL program, many small cases: `opencl_cases CASE`. Each prints its visible results, so
 * that a run under the layer can be compared with a native one. Kernel `trips` counts its own loop
 * trips with atomics, which no compiler may merge: a test can model them per warp. */
#include <stdatomic.h>
#include <sys/syscall.h>

#include "opencl_set_up.h"

/* ---- cases ---------------------------------------------------------------------------------- */

static void shapes(void) {
  static const size_t of[][7] = {/* dimensions, global, local */
                                 {1, 640, 1, 1, 64, 1, 1}, {1, 480, 1, 1, 24, 1, 1},
                                 {1, 330, 1, 1, 33, 1, 1}, {1, 1000, 1, 1, 100, 1, 1},
                                 {2, 35, 21, 1, 5, 7, 1},  {2, 64, 48, 1, 16, 16, 1},
                                 {3, 9, 8, 10, 3, 4, 5},   {1, 7, 1, 1, 1, 1, 1}};
  cl_kernel kernel = trips_kernel();
  for (size_t s = 0; s < sizeof of / sizeof *of; s++)
    must(run(queue, kernel, (cl_uint)of[s][0], &of[s][1], &of[s][4]), "launch");
  size_t offset = 11, global = 96, local = 48;
  must(clEnqueueNDRangeKernel(queue, kernel, 1, &offset, &global, &local, 0, NULL, NULL), "launch");
  show_sink("shapes");
}

static void derived(void) { /* no probe is needed: analytic counts */
  cl_kernel kernel = straight_kernel(program);
  must(run_1d(queue, kernel, 640, 64), "launch");
  must(run_1d(queue, kernel, 300, 50), "launch");
  must(run_1d(queue, kernel, 640, 0), "launch");
  must(clEnqueueTask(queue, kernel, 0, NULL, NULL), "task");
  show_sink("derived");
}

static void null_local(void) {
  cl_kernel kernel = trips_kernel();
  size_t plane[2] = {60, 50};
  must(run_1d(queue, kernel, 4096, 0), "launch");
  must(run_1d(queue, kernel, 997, 0), "launch");
  must(run(queue, kernel, 2, plane, NULL), "launch");
  show_sink("null local");
}

static const char *const SIZED =
    "kernel void sized(global int *sink, global uint *sizes) {\n"
    "  size_t i = get_global_id(0) + get_global_size(0) * get_global_id(1);\n"
    "  if (i == 0) vstore3((uint3)(get_local_size(0), get_local_size(1), 1), 0, sizes);\n"
    "  if (i < 700) atomic_inc(&sink[i & 7]);\n"
    "}\n";

static void show_chosen_size(cl_kernel kernel, cl_mem sizes, cl_uint dimensions,
                             const size_t *global) {
  unsigned local[3];
  must(run(queue, kernel, dimensions, global, NULL), "launch");
  must(clEnqueueReadBuffer(queue, sizes, CL_TRUE, 0, sizeof local, local, 0, NULL, NULL), "read");
  printf("local size %u %u\n", local[0], local[1]);
}

static void chosen_sizes(void) { /* each launch ends before the next: its choice is known then */
  static const size_t line[1] = {1000}, plane[2] = {60, 50};
  cl_int error;
  cl_kernel kernel = kernel_of(build(SIZED, ""), "sized"), trips = trips_kernel();
  cl_mem sizes = clCreateBuffer(context, CL_MEM_READ_WRITE, 3 * sizeof(cl_uint), NULL, &error);
  must(error, "sizes");
  must(clSetKernelArg(kernel, 0, sizeof sink, &sink), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sizes, &sizes), "argument 1");
  for (int i = 0; i < 3; i++) show_chosen_size(kernel, sizes, 1, line);
  for (int i = 0; i < 3; i++) show_chosen_size(kernel, sizes, 2, plane);
  for (int i = 0; i < 3; i++) {
    must(run(queue, trips, 2, plane, NULL), "launch");
    must(clFinish(queue), "finish");
  }
  show_sink("chosen sizes");
}

static cl_kernel shared_kernel;

static void *worker(void *argument) {
  long number = (long)argument;
  cl_int error;
  cl_command_queue own = clCreateCommandQueue(context, device, 0, &error);
  must(error, "queue");
  cl_kernel kernel = trips_kernel();
  for (int i = 0; i < 60; i++) {
    must(run_1d(own, kernel, 64 * (size_t)(number + 1), 32), "launch");
    must(run_1d(own, shared_kernel, 64, 64), "launch");
  }
  must(clFinish(own), "finish");
  clReleaseKernel(kernel);
  clReleaseCommandQueue(own);
  return NULL;
}

static void threads(void) {
  pthread_t thread[4];
  shared_kernel = trips_kernel();
  /* The largest first: PoCL 3.1 keeps a build for each grid size that exceeds those before, and
   * counts the users of one by those of another, which ends the process if two are in use. */
  must(run_1d(queue, shared_kernel, 256, 32), "launch");
  must(clFinish(queue), "finish");
  for (long t = 0; t < 4; t++) pthread_create(&thread[t], NULL, worker, (void *)t);
  for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
  show_sink("threads");
}

static void events(void) {
  cl_int error;
  cl_kernel kernel = trips_kernel();
  cl_command_queue second = clCreateCommandQueue(context, device, 0, &error);
  must(error, "queue");
  cl_event gate = clCreateUserEvent(context, &error), done;
  size_t global = 256, local = 32;
  must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 1, &gate, NULL), "gated");
  for (int i = 0; i < 20; i++) must(run_1d(queue, kernel, 128, 32), "behind the gate");
  /* Commands behind the gate must not delay others. */
  must(run_1d(second, kernel, 512, 32), "launch");
  must(clFinish(second), "finish second");
  must(clSetUserEventStatus(gate, CL_COMPLETE), "fire");
  must(clFinish(queue), "finish");
  cl_command_queue free_order =
      clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
  must(error, "out of order queue");
  cl_event wait[10];
  for (int i = 0; i < 10; i++)
    must(clEnqueueNDRangeKernel(free_order, kernel, 1, NULL, &global, &local, i > 1 ? 2 : 0,
                                i > 1 ? &wait[i - 2] : NULL, &wait[i]),
         "launch");
  must(clEnqueueMarkerWithWaitList(free_order, 10, wait, &done), "marker");
  must(clWaitForEvents(1, &done), "wait");
  for (int i = 0; i < 10; i++) {
    cl_int status;
    cl_command_type type;
    must(clGetEventInfo(wait[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
         "status");
    must(clGetEventInfo(wait[i], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL), "type");
    printf("event %d: status %d type %x\n", i, status, type);
    clReleaseEvent(wait[i]);
  }
  show_sink("events");
}

static void abandoned_gate(void) { /* a user event that never fires: the program ends */
  cl_int error;
  cl_kernel kernel = trips_kernel();
  cl_command_queue second = clCreateCommandQueue(context, device, 0, &error);
  cl_event gate = clCreateUserEvent(context, &error);
  size_t global = 256, local = 32;
  must(run_1d(queue, kernel, 256, 32), "launch");
  must(clFinish(queue), "finish");
  must(clEnqueueNDRangeKernel(second, kernel, 1, NULL, &global, &local, 1, &gate, NULL), "gated");
  show_sink("abandoned gate");
  fflush(stdout);
}

static const char *const
    HELPER = "int helper(int x);\n",
    *const HELPER_BODY =
        "int helper(int x) { int s = 0; for (int i = 0; i < x; i++) s += i & 3; return s; }\n";
static const char *const MAIN_BODY =
    "#include \"helper.h\"\n"
    "kernel void linked(global const int *n, global int *sink) {\n"
    "  int i = get_global_id(0);\n"
    "  if (helper(n[i]) > 4) atomic_inc(&sink[i & 7]);\n"
    "}\n";

static void programs(void) {
  cl_int error;
  cl_program header = clCreateProgramWithSource(context, 1, (const char **)&HELPER, NULL, &error);
  cl_program part[2] = {
      clCreateProgramWithSource(context, 1, (const char **)&MAIN_BODY, NULL, &error),
      clCreateProgramWithSource(context, 1, (const char **)&HELPER_BODY, NULL, &error)};
  const char *name = "helper.h";
  must(clCompileProgram(part[0], 1, &device, "", 1, &header, &name, NULL, NULL), "compile");
  must(clCompileProgram(part[1], 1, &device, "", 0, NULL, NULL, NULL, NULL), "compile");
  cl_program linked = clLinkProgram(context, 1, &device, "", 2, part, NULL, NULL, &error);
  must(error, "link");
  cl_kernel kernel = kernel_of(linked, "linked");
  clReleaseProgram(part[0]);
  clReleaseProgram(part[1]);
  clReleaseProgram(header);
  clReleaseProgram(linked);
  must(clSetKernelArg(kernel, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink, &sink), "argument 1");
  must(run_1d(queue, kernel, 1024, 64), "launch");
  clReleaseKernel(kernel);
  show_sink("linked");

  cl_kernel all[4] = {0};
  cl_uint n = 0;
  must(clCreateKernelsInProgram(program, 4, all, &n), "kernels in program");
  printf("kernels in program: %u\n", n);
  for (cl_uint k = 0; k < n; k++) {
    char kernel_name[32];
    cl_uint is_trips;
    must(clGetKernelInfo(all[k], CL_KERNEL_FUNCTION_NAME, sizeof kernel_name, kernel_name, NULL),
         "name");
    is_trips = strcmp(kernel_name, "trips") == 0;
    if (is_trips) must(clSetKernelArg(all[k], 0, sizeof input, &input), "argument");
    must(clSetKernelArg(all[k], is_trips, sizeof sink, &sink), "argument");
    must(run_1d(queue, all[k], 320, 32), "launch");
    clReleaseKernel(all[k]);
  }
  /* The same source with other options is another program. */
  cl_program other = build(SOURCE, "-DSTEP=5");
  cl_kernel straight = straight_kernel(other);
  clReleaseProgram(other);
  must(clRetainKernel(straight), "retain");
  clReleaseKernel(straight);
  must(run_1d(queue, straight, 320, 32), "launch");
  clReleaseKernel(straight);
  show_sink("programs");
}

static void reuse(void) { /* handles are reused after a release */
  for (int i = 0; i < 30; i++) {
    char options[32];
    snprintf(options, sizeof options, "-DSTEP=%d", i % 3);
    cl_program own = build(SOURCE, options);
    cl_kernel kernel = straight_kernel(own);
    must(run_1d(queue, kernel, 64, 64), "launch");
    clReleaseKernel(kernel);
    clReleaseProgram(own);
    kernel = trips_kernel();
    must(run_1d(queue, kernel, 64, 64), "launch");
    clReleaseKernel(kernel);
  }
  show_sink("reuse");
}

/* Built from the binary of another program, possibly changed. */
static void from_binary(int change) {
  size_t size;
  cl_int error, status;
  must(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL), "size");
  unsigned char *bytes = calloc(1, size + 1);
  must(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL), "binary");
  size += (size_t)change; /* one zero after its end */
  cl_program again = clCreateProgramWithBinary(context, 1, &device, &size,
                                               (const unsigned char **)&bytes, &status, &error);
  must(error, "from binary");
  must(clBuildProgram(again, 1, &device, "", NULL, NULL), "build");
  cl_kernel kernel = straight_kernel(again);
  must(run_1d(queue, kernel, 64, 64), "launch");
  free(bytes);
  show_sink("binary");
}

static void binary(void) { from_binary(0); }

static void foreign_binary(void) { from_binary(1); }

/* Keeps its binary in the file $PROGRAM_CACHE, as many programs do. */
/* The program in the file, or NULL when there is none that the driver takes. */
static cl_program from_cache(const char *path) {
  cl_int error = CL_SUCCESS, status;
  cl_program own = NULL;
  unsigned char *bytes = calloc(1, 1 << 24);
  FILE *file = fopen(path, "rb");
  if (file) {
    size_t size = fread(bytes, 1, 1 << 24, file);
    own = clCreateProgramWithBinary(context, 1, &device, &size, (const unsigned char **)&bytes,
                                    &status, &error);
    if (own) must(clBuildProgram(own, 1, &device, "", NULL, NULL), "build");
    if (!own && (error != CL_INVALID_BINARY || status != error)) must(error, "from binary");
    fclose(file);
  }
  free(bytes);
  return own;
}

static void to_cache(const char *path) {
  size_t size;
  unsigned char *bytes = calloc(1, 1 << 24);
  must(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL), "size");
  must(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL), "binary");
  FILE *file = fopen(path, "wb");
  fwrite(bytes, 1, size, file);
  fclose(file);
  free(bytes);
}

static void launch_cached(const char *path) {
  cl_program own = from_cache(path);
  if (!own) to_cache(path);
  cl_kernel kernel = kernel_of(own ? own : program, "trips");
  must(clSetKernelArg(kernel, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink, &sink), "argument 1");
  must(run_1d(queue, kernel, 640, 64), "launch");
  show_sink("program cache");
}

static void program_cache(void) { launch_cached(getenv("PROGRAM_CACHE")); }

/* What is in the cache must do: a program without a way back to its source. */
static void keyed_cache(void) {
  char version[256], path[4096];
  must(clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version, version, NULL), "version");
  snprintf(path, sizeof path, "%s-%s", getenv("PROGRAM_CACHE"), version);
  FILE *file = fopen(path, "rb");
  if (file) {
    fclose(file);
    if (!from_cache(path)) exit(3);
  }
  launch_cached(path);
}

static void failures(void) {
  cl_kernel kernel = trips_kernel(), bare = kernel_of(program, "trips");
  size_t zero = 0, one = 1;
  printf("zero size: %d\n", run(queue, kernel, 1, &zero, NULL));
  printf("no arguments: %d\n", run_1d(queue, bare, 64, 32));
  printf("no dimensions: %d\n", run(queue, kernel, 0, &one, NULL));
  printf("not divisible: %d\n", run_1d(queue, kernel, 65, 32));
  printf("too large a group: %d\n", run_1d(queue, kernel, 1 << 20, 1 << 20));
  printf("no such argument: %d\n", clSetKernelArg(kernel, 2, sizeof sink, &sink));
  must(run_1d(queue, kernel, 64, 32), "a good one");
  show_sink("failures");
}

static void infos(void) {
  cl_kernel kernel = trips_kernel();
  cl_uint n = 0, references = 0;
  size_t size = 0;
  char text[4096] = "";
  cl_int error;
  must(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL), "arguments");
  must(clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof n, &references, NULL), "refs");
  printf("arguments %u, references %u\n", n, references);
  must(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof size, &size, NULL), "kernels");
  must(clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof text, text, NULL), "source");
  printf("kernels %zu, source %zu\n", size, strlen(text));
  must(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof text, text, NULL),
       "options");
  printf("options %s\n", text);
  must(
      clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, NULL),
      "work group");
  cl_ulong local = 1;
  must(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local,
                                NULL),
       "local memory");
  printf("group %zu, local %lu\n", size, (unsigned long)local);
  must(run_1d(queue, kernel, 64, 32), "launch");
  cl_queue_properties given[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
  cl_command_queue own[3] = {
      clCreateCommandQueueWithProperties(context, device, NULL, &error),
      clCreateCommandQueueWithProperties(context, device, given, &error),
      clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &error)};
  for (int q = 0; q < 3; q++) {
    cl_command_queue_properties flags = 99;
    cl_queue_properties array[8] = {0};
    cl_event event;
    cl_ulong stamp = 0;
    size_t bytes = 99, global = 64, group = 32;
    int told =
        clGetCommandQueueInfo(own[q], CL_QUEUE_PROPERTIES_ARRAY, sizeof array, array, &bytes);
    must(clGetCommandQueueInfo(own[q], CL_QUEUE_PROPERTIES, sizeof flags, &flags, NULL), "flags");
    printf("queue %d: flags %lx, array %d, %zu bytes, %lx\n", q, (unsigned long)flags, told, bytes,
           (unsigned long)array[1]);
    must(clEnqueueNDRangeKernel(own[q], kernel, 1, NULL, &global, &group, 0, NULL, &event),
         "launch");
    must(clWaitForEvents(1, &event), "wait");
    error = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof stamp, &stamp, NULL);
    printf("profiling: %d, stamp %s\n", error, stamp ? "yes" : "no");
    clReleaseEvent(event);
    clReleaseCommandQueue(own[q]);
  }
  show_sink("infos");
}

static volatile int called[4];

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *user) {
  (void)event;
  called[0] += status == CL_COMPLETE && user == (void *)called;
}
static void CL_CALLBACK on_build(cl_program built, void *user) {
  (void)built;
  called[1] += user == (void *)called;
}
static void CL_CALLBACK on_release(cl_mem mem, void *user) {
  (void)mem;
  called[2] += user == (void *)called;
}
static void CL_CALLBACK on_device(void *arguments) {
  int values[3];
  memcpy(values, arguments, sizeof values);
  called[3] += values[0] + values[1] + values[2];
}

static void callbacks(void) {
  cl_int error;
  cl_event event;
  cl_kernel kernel = trips_kernel();
  size_t global = 64, local = 32;
  int arguments[3] = {100, 20, 3};
  must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, &event), "launch");
  must(clSetEventCallback(event, CL_COMPLETE, on_event, (void *)called), "event callback");
  must(clFinish(queue), "finish");
  cl_program own = clCreateProgramWithSource(context, 1, (const char **)&SOURCE, NULL, &error);
  must(clBuildProgram(own, 1, &device, "-DSTEP=1", on_build, (void *)called), "build");
  for (int i = 0; i < 2000 && !called[1]; i++) usleep(1000);
  cl_mem own_mem = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &error);
  must(clSetMemObjectDestructorCallback(own_mem, on_release, (void *)called), "destructor");
  clReleaseMemObject(own_mem);
  error = clEnqueueNativeKernel(queue, on_device, arguments, sizeof arguments, 0, NULL, NULL, 0,
                                NULL, NULL);
  must(clFinish(queue), "finish");
  for (int i = 0; i < 2000 && !called[0]; i++) usleep(1000);
  printf("native kernel: %d\n", error);
  printf("called: %d %d %d %d\n", called[0], called[1], called[2], called[3]);
}

static void no_finish(void) { /* ends with launches in flight */
  cl_kernel kernel = trips_kernel();
  show_sink("before");
  for (int i = 0; i < 50; i++) must(run_1d(queue, kernel, 4096, 32), "launch");
  clFlush(queue);
}

static void local_memory(void) { /* leaves little space for the counters, or none */
  cl_program own = build(
      "kernel void greedy(global const int *n, global int *sink, local int *big) {\n"
      "  int i = get_global_id(0), l = get_local_id(0);\n"
      "  for (int k = 0; k < n[i]; k++) big[l] = k;\n"
      "  if (n[i] > 3) atomic_add(&sink[i & 7], big[l]);\n"
      "}\n",
      "");
  cl_kernel greedy = kernel_of(own, "greedy");
  cl_ulong room;
  must(clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof room, &room, NULL), "local memory");
  must(clSetKernelArg(greedy, 0, sizeof input, &input), "argument 0");
  must(clSetKernelArg(greedy, 1, sizeof sink, &sink), "argument 1");
  const size_t left[] = {room - 4096, 64 * sizeof(cl_ulong), 0, room - 4096};
  for (int i = 0; i < 4; i++) {
    must(clSetKernelArg(greedy, 2, room - left[i], NULL), "argument 2");
    must(run_1d(queue, greedy, 256 + 128 * i, 64), "launch");
  }
  show_sink("local memory");
}

static void sub_devices(void) { /* one context, two devices */
  cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  cl_device_id parts[8];
  cl_uint n = 0;
  cl_int error = clCreateSubDevices(device, how, 8, parts, &n);
  if (error != CL_SUCCESS || n < 2) {
    printf("no sub-devices\n");
    return;
  }
  cl_context both = clCreateContext(NULL, 2, parts, NULL, NULL, &error);
  must(error, "context");
  cl_program own = clCreateProgramWithSource(both, 1, (const char **)&SOURCE, NULL, &error);
  must(clBuildProgram(own, 2, parts, "-DSTEP=2", NULL, NULL), "build");
  cl_kernel kernel = kernel_of(own, "trips");
  static int trips[MAX_ITEMS], values[8];
  for (int i = 0; i < MAX_ITEMS; i++) trips[i] = (int)((unsigned)i * 7919u % 13u);
  cl_mem n_mem = clCreateBuffer(both, CL_MEM_COPY_HOST_PTR, sizeof trips, trips, &error);
  cl_mem sink_mem = clCreateBuffer(both, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  must(clSetKernelArg(kernel, 0, sizeof n_mem, &n_mem), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sink_mem, &sink_mem), "argument 1");
  for (int round = 0; round < 3; round++)
    for (int d = 0; d < 2; d++) {
      cl_command_queue own_queue = clCreateCommandQueue(both, parts[d], 0, &error);
      must(error, "queue");
      must(run_1d(own_queue, kernel, 512, 64), "launch");
      must(clFinish(own_queue), "finish");
      must(clEnqueueReadBuffer(own_queue, sink_mem, CL_TRUE, 0, sizeof values, values, 0, NULL,
                               NULL),
           "read");
      clReleaseCommandQueue(own_queue);
    }
  printf("sub-devices: %d %d\n", values[0], values[7]);
}

static const char *const FEATURES =
    "typedef struct { int a; float b; char c[3]; } pack;\n"
    "constant int table[4] = {1, 20, 300, 4000};\n"
    "const sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE |\n"
    "                          CLK_FILTER_NEAREST;\n"
    "kernel __attribute__((reqd_work_group_size(16, 1, 1)))\n"
    "void features(read_only image2d_t image, sampler_t sampler, pack p, float3 v, local int *l,\n"
    "              global int *sink, global float *out, constant int *factors, uchar flag) {\n"
    "  int i = get_global_id(0), li = get_local_id(0);\n"
    "  local int sum;\n"
    "  l[li] = i;\n"
    "  if (li == 0) sum = 0;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  uint4 a = read_imageui(image, sampler, (int2)(i & 7, i >> 3));\n"
    "  uint4 b = read_imageui(image, nearest, (int2)(7 - (i & 7), i >> 3));\n"
    "  if (a.x > 20) atomic_add(&sum, (int)(a.x + b.y));\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (int k = 0; k < p.a + p.c[1]; k++) atomic_add(&sink[k & 7], table[i & 3] * flag);\n"
    "  if (li == 15) { atomic_add(&sink[0], sum + l[14] + factors[i & 1]); }\n"
    "  out[i] = dot(v, (float3)(p.b, i, 1)) + native_sin(0.0f);\n"
    "  if (i == 40) printf(\"device says %d %s %.2f\\n\", i, \"hello\", p.b);\n"
    "}\n";

static void features(void) {
  struct {
    int a;
    float b;
    char c[3];
  } pack = {5, 1.5f, {1, 2, 3}};
  cl_float4 v = {{1, 2, 3, 0}};
  cl_int error;
  unsigned pixels[8][8][4];
  float out[64];
  cl_uchar flag = 2;
  int pair[2] = {7, 9};
  for (int i = 0; i < 256; i++) ((unsigned *)pixels)[i] = (unsigned)(i * 37 % 101);
  cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT32};
  cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 8};
  cl_mem image = clCreateImage(context, CL_MEM_COPY_HOST_PTR, &format, &desc, pixels, &error);
  must(error, "image");
  cl_sampler sampler =
      clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &error);
  must(error, "sampler");
  cl_mem result = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof out, NULL, &error);
  cl_mem factors = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof pair, pair, &error);
  cl_kernel kernel = kernel_of(build(FEATURES, "-cl-mad-enable"), "features");
  must(clSetKernelArg(kernel, 0, sizeof image, &image), "argument 0");
  must(clSetKernelArg(kernel, 1, sizeof sampler, &sampler), "argument 1");
  must(clSetKernelArg(kernel, 2, sizeof pack, &pack), "argument 2");
  must(clSetKernelArg(kernel, 3, sizeof v, &v), "argument 3");
  must(clSetKernelArg(kernel, 4, 16 * sizeof(int), NULL), "argument 4");
  must(clSetKernelArg(kernel, 5, sizeof sink, &sink), "argument 5");
  must(clSetKernelArg(kernel, 6, sizeof result, &result), "argument 6");
  must(clSetKernelArg(kernel, 7, sizeof factors, &factors), "argument 7");
  must(clSetKernelArg(kernel, 8, sizeof flag, &flag), "argument 8");
  must(run_1d(queue, kernel, 64, 16), "launch");
  pack.a = 9; /* arguments change between launches */
  must(clSetKernelArg(kernel, 2, sizeof pack, &pack), "argument 2");
  must(run_1d(queue, kernel, 64, 16), "launch");
  must(clEnqueueReadBuffer(queue, result, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL), "read");
  for (int i = 0; i < 64; i++) printf("%g%c", out[i], i % 16 == 15 ? '\n' : ' ');
  show_sink("features");
}

static void forks(void) {
  cl_kernel kernel = trips_kernel();
  must(run_1d(queue, kernel, 64, 32), "launch");
  must(clFinish(queue), "finish");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  must(run_1d(queue, kernel, 64, 32), "launch");
  printf("child ended with %d\n", WEXITSTATUS(status));
  show_sink("forks");
}

/* One transfer of each kind, of unlike sizes: TRANSFERS in test_opencl_layer.py has them. */
static void transfers(void) {
  static unsigned char host[4096];
  static const size_t none[3] = {0, 0, 0};
  const size_t regions[][3] = {{16, 2, 1}, {8, 3, 1}, {4, 4, 1}, {8, 2, 1}, {4, 3, 1},
                               {2, 2, 1},  {3, 1, 1}, {5, 1, 1}, {8, 8, 1}};
  cl_int error;
  size_t pitch = 0;
  cl_mem buffers[2], images[2];
  cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 8};
  for (int i = 0; i < 2; i++) {
    buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof host, NULL, &error);
    must(error, "buffer");
    images[i] = clCreateImage(context, CL_MEM_READ_WRITE, &format, &desc, NULL, &error);
    must(error, "image");
  }
  cl_mem from = buffers[0], to = buffers[1], image = images[0], other = images[1];
  cl_command_queue q = queue;
  must(clEnqueueWriteBuffer(q, from, CL_TRUE, 0, 100, host, 0, NULL, NULL), "write");
  must(clEnqueueReadBuffer(q, from, CL_FALSE, 0, 200, host, 0, NULL, NULL), "read");
  must(clEnqueueWriteBufferRect(q, from, CL_TRUE, none, none, regions[0], 64, 0, 64, 0, host, 0,
                                NULL, NULL),
       "write");
  must(clEnqueueReadBufferRect(q, from, CL_TRUE, none, none, regions[1], 64, 0, 64, 0, host, 0,
                               NULL, NULL),
       "read");
  must(clEnqueueCopyBuffer(q, from, to, 0, 0, 65, 0, NULL, NULL), "copy");
  must(clEnqueueCopyBufferRect(q, from, to, none, none, regions[2], 64, 0, 64, 0, 0, NULL, NULL),
       "copy");
  must(clEnqueueWriteImage(q, image, CL_TRUE, none, regions[3], 0, 0, host, 0, NULL, NULL),
       "write");
  must(clEnqueueReadImage(q, image, CL_TRUE, none, regions[4], 0, 0, host, 0, NULL, NULL), "read");
  must(clEnqueueCopyImage(q, image, other, none, none, regions[5], 0, NULL, NULL), "copy");
  must(clEnqueueCopyImageToBuffer(q, image, to, none, regions[6], 0, 0, NULL, NULL), "copy");
  must(clEnqueueCopyBufferToImage(q, from, image, 0, none, regions[7], 0, NULL, NULL), "copy");
  clEnqueueMapBuffer(q, from, CL_TRUE, CL_MAP_READ, 0, 128, 0, NULL, NULL, &error);
  must(error, "map");
  clEnqueueMapBuffer(q, to, CL_TRUE, CL_MAP_WRITE, 0, 129, 0, NULL, NULL, &error);
  must(error, "map");
  clEnqueueMapImage(q, image, CL_TRUE, CL_MAP_READ, none, regions[8], &pitch, NULL, 0, NULL, NULL,
                    &error);
  must(error, "map");
  must(clFinish(q), "finish");
  printf("transfers\n");
}

static void *build_from_cache(void *ended) {
  static unsigned char bytes[1 << 24], *start = bytes;
  FILE *file = fopen(getenv("PROGRAM_CACHE"), "rb");
  size_t size = fread(bytes, 1, sizeof bytes, file);
  cl_int error, status;
  fclose(file);
  cl_program own = clCreateProgramWithBinary(context, 1, &device, &size,
                                             (const unsigned char **)&start, &status, &error);
  must(error, "from binary");
  must(clBuildProgram(own, 1, &device, "", NULL, NULL), "build");
  return ended;
}

/* Opens the other end of the pipe $PIPE late, which releases its waiters. */
static void *open_pipe(void *ended) {
  usleep(400000);
  for (int i = 0; i < 100; i++, usleep(10000)) {
    int end = open(getenv("PIPE"), O_WRONLY | O_NONBLOCK);
    if (end < 0) continue;
    close(end);
    break;
  }
  return ended;
}

/* Forks while another thread waits for that pipe within a build. */
static void fork_in_build(void) {
  static unsigned char bytes[1 << 24], *start = bytes;
  pthread_t builder, opener;
  size_t made;
  cl_program other = build(SOURCE, "-DSTEP=4");
  must(clGetProgramInfo(other, CL_PROGRAM_BINARY_SIZES, sizeof made, &made, NULL), "size");
  must(clGetProgramInfo(other, CL_PROGRAM_BINARIES, sizeof start, &start, NULL), "binary");
  pthread_create(&builder, NULL, build_from_cache, NULL);
  pthread_create(&opener, NULL, open_pipe, NULL);
  usleep(200000);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    must(clGetProgramInfo(other, CL_PROGRAM_BINARIES, sizeof start, &start, NULL), "binary");
    must(clRetainCommandQueue(queue), "retain");
    must(clReleaseCommandQueue(queue), "release");
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child ended with %d, by signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
  pthread_join(builder, NULL);
  pthread_join(opener, NULL);
}

static atomic_int forks_are_over;

static void *use_program(void *used) {
  cl_uint n;
  while (!forks_are_over) {
    must(clRetainProgram(used), "retain");
    must(clGetProgramInfo(used, CL_PROGRAM_NUM_DEVICES, sizeof n, &n, NULL), "devices");
    must(clReleaseProgram(used), "release");
  }
  return used;
}

/* Forks while another thread uses another program. */
static void fork_in_calls(void) {
  pthread_t user;
  int ended = 0;
  cl_uint n;
  pthread_create(&user, NULL, use_program, build(SOURCE, "-DSTEP=4"));
  for (int i = 0; i < 300; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      must(clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof n, &n, NULL), "devices");
      must(clRetainProgram(program), "retain");
      _exit(7);
    }
    waitpid(child, &status, 0);
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  forks_are_over = 1;
  pthread_join(user, NULL);
  printf("%d children ended\n", ended);
}

static atomic_int launched;

static void *launch_elsewhere(void *kernel) {
  for (int i = 0; i < 20; i++) must(run_1d(queue, kernel, 256, 32), "launch");
  must(clFinish(queue), "finish");
  launched = 1;
  return kernel;
}

/* The first thread makes system calls while another one launches. */
static void launches_elsewhere(void) {
  const long parent = (long)getppid();
  pthread_t other;
  int wrong = 0;
  cl_kernel kernel = trips_kernel();
  pthread_create(&other, NULL, launch_elsewhere, kernel);
  while (!launched) {
    wrong += syscall(SYS_getppid) != parent;
    wrong += syscall(SYS_sched_yield) != 0;
  }
  pthread_join(other, NULL);
  printf("%d wrong\n", wrong);
}

static void killed(void) {
  cl_kernel kernel = trips_kernel();
  for (int i = 0; i < 100; i++) must(run_1d(queue, kernel, 256, 32), "launch");
  must(clFinish(queue), "finish");
  raise(SIGKILL);
}

/* Replays in an in-order queue, then in out-of-order queues; some wait for one another. */
static void command_buffer(void) {
#define FUNCTION(name) \
  name##_fn name = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name)
  FUNCTION(clCreateCommandBufferKHR);
  FUNCTION(clCommandNDRangeKernelKHR);
  FUNCTION(clFinalizeCommandBufferKHR);
  FUNCTION(clEnqueueCommandBufferKHR);
  FUNCTION(clReleaseCommandBufferKHR);
  cl_int error;
  cl_sync_point_khr first;
  cl_device_command_buffer_capabilities_khr able = 0;
  size_t global = 128, local = 32, plane[2] = {30, 20};
  int other_trips[MAX_ITEMS];
  char name[64] = "";
  if (!clCreateCommandBufferKHR) {
    printf("no command buffers\n");
    return;
  }
  cl_kernel trips = trips_kernel(), straight = straight_kernel(program);
  clGetDeviceInfo(device, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, sizeof able, &able, NULL);
  int at_once = (able & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) != 0;
  cl_command_buffer_properties_khr flags[] = {CL_COMMAND_BUFFER_FLAGS_KHR,
                                              CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
  cl_command_buffer_khr buffer =
      clCreateCommandBufferKHR(1, &queue, at_once ? flags : NULL, &error);
  must(error, "command buffer");
  must(clCommandNDRangeKernelKHR(buffer, NULL, NULL, trips, 1, NULL, &global, &local, 0, NULL,
                                 &first, NULL),
       "record");
  must(clCommandNDRangeKernelKHR(buffer, NULL, NULL, straight, 1, NULL, &global, &local, 1, &first,
                                 NULL, NULL),
       "record");
  must(clCommandNDRangeKernelKHR(buffer, NULL, NULL, trips, 2, NULL, plane, NULL, 0, NULL, NULL,
                                 NULL),
       "record");
  must(clFinalizeCommandBufferKHR(buffer), "finalize");
  /* Recorded commands keep their arguments (not on PoCL 3.1). */
  for (int i = 0; i < MAX_ITEMS; i++) other_trips[i] = 1;
  cl_mem other =
      clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof other_trips, other_trips, &error);
  clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
  if (!strstr(name, "Portable")) must(clSetKernelArg(trips, 0, sizeof other, &other), "argument 0");
  for (int i = 0; i < 3; i++) {
    must(clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL), "enqueue");
    if (!at_once) must(clFinish(queue), "finish");
  }
  must(clFinish(queue), "finish");
  must(clSetKernelArg(trips, 0, sizeof input, &input), "argument 0");
  must(run_1d(queue, trips, 128, 32), "launch");
  must(clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL), "enqueue");
  clReleaseCommandBufferKHR(buffer); /* while it runs */
  for (int i = 0; i < 3; i++) must(run_1d(queue, trips, 256, 64), "launch");
  show_sink("command buffer");
}

/* The program clears its environment after the layer was loaded. */
static void cleared(void) {
  clearenv();
  must(run_1d(queue, trips_kernel(), 640, 64), "launch");
  show_sink("cleared");
}

static void nothing(void) { printf("no launch\n"); }

static void contexts(void) { /* contexts come and go, with work in each */
  clReleaseMemObject(input);
  clReleaseMemObject(sink);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  for (int i = 0; i < 10; i++) {
    set_up();
    cl_kernel kernel = trips_kernel();
    must(run_1d(queue, kernel, 640, 64), "launch");
    if (i % 2) show_sink("contexts");
    clReleaseContext(context); /* before its objects */
    clReleaseKernel(kernel);
    clReleaseMemObject(input);
    clReleaseMemObject(sink);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
  }
}

static const struct one_case CASES[] = {{"shapes", shapes},
                                        {"derived", derived},
                                        {"null_local", null_local},
                                        {"chosen_sizes", chosen_sizes},
                                        {"threads", threads},
                                        {"events", events},
                                        {"abandoned_gate", abandoned_gate},
                                        {"programs", programs},
                                        {"reuse", reuse},
                                        {"binary", binary},
                                        {"foreign_binary", foreign_binary},
                                        {"program_cache", program_cache},
                                        {"keyed_cache", keyed_cache},
                                        {"failures", failures},
                                        {"infos", infos},
                                        {"callbacks", callbacks},
                                        {"cleared", cleared},
                                        {"no_finish", no_finish},
                                        {"local_memory", local_memory},
                                        {"sub_devices", sub_devices},
                                        {"transfers", transfers},
                                        {"forks", forks},
                                        {"fork_in_build", fork_in_build},
                                        {"fork_in_calls", fork_in_calls},
                                        {"launches_elsewhere", launches_elsewhere},
                                        {"killed", killed},
                                        {"nothing", nothing},
                                        {"contexts", contexts},
                                        {"features", features},
                                        {"command_buffer", command_buffer}};

int main(int argc, char **argv) {
  return run_case(CASES, sizeof CASES / sizeof *CASES, argc, argv);
}
