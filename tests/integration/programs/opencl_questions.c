/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a program can ask about a program and its kernels, built in several ways, and their
 * results. */
#include "opencl_set_up.h"

static const char *const TEXT =
    "kernel void add(global int *out, int step) { out[get_global_id(0)] += step * FACTOR; }\n"
    "kernel void tell(global int *out) { printf(\"item %d\\n\", out[get_global_id(0)]); }\n";

static int notified;

static void CL_CALLBACK on_built(cl_program built, void *user) { notified += built == user; }

static cl_program create(void) {
  cl_int error;
  const char *text = TEXT;
  cl_program made = clCreateProgramWithSource(context, 1, &text, NULL, &error);
  must(error, "create");
  return made;
}

static void ask_program(cl_program asked) {
  cl_uint n = 0, references = 0, status = 0, type = 0;
  size_t kernels = 0, binary = 0;
  char text[4096] = "";
  must(clGetProgramInfo(asked, CL_PROGRAM_NUM_DEVICES, sizeof n, &n, NULL), "devices");
  must(clGetProgramInfo(asked, CL_PROGRAM_REFERENCE_COUNT, sizeof references, &references, NULL),
       "references");
  must(clGetProgramInfo(asked, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL), "kernels");
  must(clGetProgramInfo(asked, CL_PROGRAM_KERNEL_NAMES, sizeof text, text, NULL), "names");
  printf("%u devices, %u references, %zu kernels: %s\n", n, references, kernels, text);
  must(clGetProgramInfo(asked, CL_PROGRAM_SOURCE, sizeof text, text, NULL), "source");
  printf("source %d\n", strcmp(text, TEXT));
  must(clGetProgramInfo(asked, CL_PROGRAM_BINARY_SIZES, sizeof binary, &binary, NULL), "sizes");
  printf("binary %d, too small %d\n", binary > 100,
         clGetProgramInfo(asked, CL_PROGRAM_SOURCE, 3, text, NULL));
  must(clGetProgramBuildInfo(asked, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL),
       "status");
  must(clGetProgramBuildInfo(asked, device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, NULL),
       "type");
  must(clGetProgramBuildInfo(asked, device, CL_PROGRAM_BUILD_OPTIONS, sizeof text, text, NULL),
       "options");
  printf("status %d, type %x, options <%s>", (int)status, type, text);
  must(clGetProgramBuildInfo(asked, device, CL_PROGRAM_BUILD_LOG, sizeof text, text, NULL), "log");
  printf(", log <%s>\n", text);
}

static void ask_kernel(cl_kernel kernel, cl_program its) {
  cl_program found;
  char text[256] = "";
  size_t group = 0;
  must(clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof found, &found, NULL), "program");
  must(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text, text, NULL), "name");
  must(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group,
                                NULL),
       "group");
  printf("%s of its program: %d, group %zu", text, found == its, group);
  cl_int error = clGetKernelArgInfo(kernel, 0, CL_KERNEL_ARG_NAME, sizeof text, text, NULL);
  printf(", argument %d %s", error, error ? "" : text);
  error = clGetKernelArgInfo(kernel, 0, CL_KERNEL_ARG_TYPE_NAME, sizeof text, text, NULL);
  printf(" %s\n", error ? "" : text);
}

static void use(cl_program built) {
  int values[8] = {0}, step = 3;
  cl_kernel kernels[2];
  cl_uint n = 0;
  must(clCreateKernelsInProgram(built, 2, kernels, &n), "kernels");
  cl_kernel add = kernel_of(built, "add"), tell = kernel_of(built, "tell");
  ask_kernel(add, built);
  cl_int error;
  cl_mem out = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  must(error, "buffer");
  must(clSetKernelArg(add, 0, sizeof out, &out), "argument 0");
  must(clSetKernelArg(add, 1, sizeof step, &step), "argument 1");
  must(clSetKernelArg(tell, 0, sizeof out, &out), "argument 0");
  must(run_1d(queue, add, 8, 8), "run");
  must(run_1d(queue, tell, 1, 1), "run");
  must(clFinish(queue), "finish");
  must(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL), "read");
  printf("%u kernels, value %d\n", n, values[7]);
  printf("build with kernels: %d\n", clBuildProgram(built, 0, NULL, "-DFACTOR=9", NULL, NULL));
  printf("compile with kernels: %d\n",
         clCompileProgram(built, 0, NULL, "-DFACTOR=9", 0, NULL, NULL, NULL, NULL));
  clReleaseKernel(kernels[0]), clReleaseKernel(kernels[1]);
  clReleaseKernel(tell), clReleaseKernel(add);
}

static void sources(void) {
  static const char *const options[] = {"-DFACTOR=1", "-DFACTOR=2 -cl-kernel-arg-info"};
  cl_program asked = create();
  cl_program bad = create();
  printf("no devices: %d, no number: %d, nobody to tell: %d\n",
         clBuildProgram(bad, 1, NULL, "", NULL, NULL),
         clBuildProgram(bad, 0, &device, "", NULL, NULL),
         clBuildProgram(bad, 0, NULL, "", NULL, &bad));
  printf("not built: %d\n", clBuildProgram(bad, 0, NULL, "-DFACTOR=(", NULL, NULL));
  printf("nor now: %d\n", clBuildProgram(bad, 0, NULL, "-DFACTOR=1", NULL, NULL));
  for (int i = 0; i < 2; i++) {
    must(clBuildProgram(asked, (cl_uint)i, i ? &device : NULL, options[i], NULL, NULL), "build");
    ask_program(asked);
    use(asked);
  }
  printf("not built again: %d\n", clBuildProgram(asked, 0, NULL, "-DFACTOR=(", NULL, NULL));
  clRetainProgram(asked);
  clReleaseProgram(asked);
  clReleaseProgram(asked);
}

static void told(void) {
  cl_program asked = create();
  must(clBuildProgram(asked, 1, &device, "-DFACTOR=4", on_built, asked), "build");
  for (int i = 0; i < 1000 && !notified; i++) usleep(10000);
  printf("notified %d\n", notified);
  use(asked);
}

/* The kernel lives longer than the program's last reference. */
static void outlived(void) {
  cl_program asked = create();
  must(clBuildProgram(asked, 1, &device, "-DFACTOR=4", NULL, NULL), "build");
  cl_kernel add = kernel_of(asked, "add");
  clReleaseProgram(asked);
  ask_kernel(add, asked);
}

static void compiled(void) {
  cl_int error;
  cl_program asked = create();
  must(clBuildProgram(asked, 1, &device, "-DFACTOR=5", NULL, NULL), "build");
  must(clCompileProgram(asked, 1, &device, "-DFACTOR=6", 0, NULL, NULL, NULL, NULL), "compile");
  cl_program linked = clLinkProgram(context, 1, &device, "", 1, &asked, NULL, NULL, &error);
  must(error, "link");
  use(linked);
}

int main(int argc, char **argv) {
  static const struct one_case cases[] = {
      {"sources", sources}, {"told", told}, {"outlived", outlived}, {"compiled", compiled}};
  return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
