/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose kernels need no counters, each made in another way: own_builds CASE FOLDER. */
#include <string.h>

#include "one_queue.h"

static const char *folder;

static cl_program built(const char *text, const char *options) {
  cl_program made = program_of(text);
  check(clBuildProgram(made, 1, &device, options, NULL, NULL));
  return made;
}

/* Launches the kernel in every form that the runtime may compile separately: local sizes, an
 * offset, a grid of more than 65,535 work-items. */
static void launch(cl_kernel kernel, cl_mem buffer) {
  static const size_t forms[][3] = {{0, 128, 32}, {0, 128, 64}, {64, 64, 32}, {0, 1 << 17, 32}};
  int n = 3;
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
  check(clSetKernelArg(kernel, 1, sizeof n, &n));
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    check(clEnqueueNDRangeKernel(queue, kernel, 1, forms[i], forms[i] + 1, forms[i] + 2, 0, NULL,
                                 NULL));
  check(clFinish(queue));
}

static void count(cl_program made) {
  cl_int error, values[128] = {0};
  cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  check(error);
  cl_kernel kernel = clCreateKernel(made, "count", &error);
  check(error);
  launch(kernel, buffer);
  clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
  long sum = 0;
  for (int i = 0; i < 128; i++) sum += (i + 1) * values[i];
  printf("%ld\n", sum);
}

static const char simple[] =
    "kernel void count(global int *a, int n) { a[get_global_id(0) % 128] = n; }";

static void analytic(void) { count(built(simple, "-DUNUSED=1")); }

/* More local sizes than one kernel usually has. */
static void sizes(void) {
  cl_int error, n = 3, values[128] = {0};
  cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  check(error);
  cl_kernel kernel = clCreateKernel(built(simple, ""), "count", &error);
  check(error);
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
  check(clSetKernelArg(kernel, 1, sizeof n, &n));
  for (size_t local = 1; local <= 24; local++)
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &local, &local, 0, NULL, NULL));
  check(clFinish(queue));
}

static void parts(void) {
  cl_int error;
  cl_program inputs[] = {
      program_of("#include \"parts/step.h\"\nint step(int n) { return n + STEP; }"),
      program_of(
          "int step(int n);\n"
          "kernel void count(global int *a, int n) { a[get_global_id(0) % 128] = step(n); }")};
  cl_program header = program_of("#define STEP 5");
  const char *name = "parts/step.h";
  check(clCompileProgram(inputs[0], 1, &device, "", 1, &header, &name, NULL, NULL));
  check(clCompileProgram(inputs[1], 0, NULL, "-DUNUSED=2", 0, NULL, NULL, NULL, NULL));
  cl_program made = clLinkProgram(context, 1, &device, "", 2, inputs, NULL, NULL, &error);
  check(error);
  count(made);
}

static void binaries(void) {
  cl_program made = built(simple, NULL);
  size_t size = 0;
  cl_int error;
  clGetProgramInfo(made, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
  unsigned char *bytes = malloc(size);
  clGetProgramInfo(made, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL);
  const unsigned char *same = bytes;
  cl_program again = clCreateProgramWithBinary(context, 1, &device, &size, &same, NULL, &error);
  check(error);
  check(clBuildProgram(again, 0, NULL, NULL, NULL, NULL));
  count(again);
}

static void included(void) {
  char path[4096], options[4096 + 8];
  snprintf(path, sizeof path, "%s/amount.h", folder);
  FILE *file = fopen(path, "w");
  fputs("#define AMOUNT 7\n", file);
  fclose(file);
  snprintf(options, sizeof options, "-I %s", folder);
  count(
      built("#include \"amount.h\"\n"
            "kernel void count(global int *a, int n) { a[get_global_id(0) % 128] = n * AMOUNT; }",
            options));
}

static void images(void) {
  const size_t global[] = {4, 4}, local[] = {2, 2};
  cl_int error, values[16];
  float pixels[64];
  for (int i = 0; i < 64; i++) pixels[i] = (float)i;
  const cl_image_format format = {CL_RGBA, CL_FLOAT};
  const cl_image_desc shape = {
      .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
  cl_mem image = clCreateImage(context, CL_MEM_COPY_HOST_PTR, &format, &shape, pixels, &error);
  check(error);
  cl_sampler sampler =
      clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &error);
  check(error);
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof values, NULL, &error);
  cl_program made = built(
      "typedef struct { int a, b, c; } Three;\n"
      "kernel void look(read_only image2d_t from, sampler_t how, global int *to, Three three,\n"
      "                 local int *room, float3 more) {\n"
      "  int x = get_global_id(0), y = get_global_id(1);\n"
      "  room[get_local_id(0)] = three.c;\n"
      "  to[y * 4 + x] = (int)read_imagef(from, how, (int2)(x, y)).y + three.b + (int)more.z;\n"
      "}",
      "");
  cl_kernel kernel = clCreateKernel(made, "look", &error);
  check(error);
  const int three[] = {1, 2, 3};
  const float more[] = {1, 2, 3, 0};
  clSetKernelArg(kernel, 0, sizeof image, &image);
  clSetKernelArg(kernel, 1, sizeof sampler, &sampler);
  clSetKernelArg(kernel, 2, sizeof buffer, &buffer);
  clSetKernelArg(kernel, 3, sizeof three, three);
  clSetKernelArg(kernel, 4, 64, NULL);
  clSetKernelArg(kernel, 5, sizeof more, more);
  check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL));
  clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
  for (int i = 0; i < 16; i++) printf("%d ", values[i]);
  puts("");
}

static void fails(void) {
  cl_program made = program_of("kernel void wrong(global int *a) { a[0] = unknown; }");
  char log[4096] = "";
  printf("%d\n", clBuildProgram(made, 1, &device, "", NULL, NULL));
  clGetProgramBuildInfo(made, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
  /* Without the name of the driver's temporary file. */
  const char *end = strrchr(log, ':');
  printf("%s\n", end ? end : log);
  puts(strstr(strstr(log, "unknown") + 1, "unknown") ? "twice" : "once");
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"analytic", analytic}, {"sizes", sizes},   {"parts", parts}, {"binaries", binaries},
               {"included", included}, {"images", images}, {"fails", fails}};
  if (argc < 3) return 2;
  folder = argv[2];
  open_queue(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(argv[1], cases[i].name)) {
      cases[i].run();
      return 0;
    }
  return 2;
}
