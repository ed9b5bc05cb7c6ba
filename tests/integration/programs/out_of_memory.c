/* SPDX-License-Identifier: Apache-2.0 */
/* out_of_memory CASE [on]: launches while allocations of the OpenCL layer fail. In the n-th of
 * ROUNDS rounds the n-th allocation that the layer makes within the call fails; with `on`, all
 * later ones too. The program prints its visible results, and writes the number of failures to the
 * file $FAILED. */
#define _GNU_SOURCE
#include <link.h>

#include "opencl_set_up.h"

enum { ROUNDS = 80 };

static __thread int left, failing_on, failed;
static int on;
static uintptr_t layer_begin, layer_end;

extern void *__libc_malloc(size_t size);

void *malloc(size_t size) {
  uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  if ((left || failing_on) && caller >= layer_begin && caller < layer_end &&
      (failing_on || --left == 0)) {
    failing_on = on;
    failed++;
    return NULL;
  }
  return __libc_malloc(size);
}

static int find_layer(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size, (void)data;
  if (!strstr(info->dlpi_name, "libxpuprof_opencl")) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    layer_begin = info->dlpi_addr + part->p_vaddr;
    layer_end = layer_begin + part->p_memsz;
  }
  return 0;
}

static void fail(int n) { left = n; }
static void fail_no_more(void) { left = failing_on = 0; }

/* The program is instrumented before anything fails, since that failure would be permanent. */
static void built(void) {
  cl_kernel kernel = trips_kernel();
  must(run_1d(queue, kernel, 64, 64), "launch");
  must(clFinish(queue), "finish");
  clReleaseKernel(kernel);
}

/* A new kernel object each time, so that the layer does all its work. */
static void launch(void) {
  built();
  for (int n = 1; n <= ROUNDS; n++) {
    cl_kernel kernel = trips_kernel();
    cl_event done;
    size_t global = 640, local = 64;
    fail(n);
    cl_int error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL,
                                          n % 2 ? &done : NULL);
    fail_no_more();
    must(error, "launch");
    if (n % 2) must(clWaitForEvents(1, &done), "wait");
    if (n % 2) must(clReleaseEvent(done), "release");
    must(clFinish(queue), "finish");
    clReleaseKernel(kernel);
  }
}

static void task(void) {
  built();
  for (int n = 1; n <= ROUNDS; n++) {
    cl_kernel kernel = trips_kernel();
    fail(n);
    cl_int error = clEnqueueTask(queue, kernel, 0, NULL, NULL);
    fail_no_more();
    must(error, "task");
    must(clFinish(queue), "finish");
    clReleaseKernel(kernel);
  }
}

#define FUNCTION(name) \
  name##_fn name = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name)

static void buffers(int while_recorded) {
  built();
  FUNCTION(clCreateCommandBufferKHR);
  FUNCTION(clCommandNDRangeKernelKHR);
  FUNCTION(clFinalizeCommandBufferKHR);
  FUNCTION(clEnqueueCommandBufferKHR);
  FUNCTION(clReleaseCommandBufferKHR);
  if (!clCreateCommandBufferKHR) {
    printf("no command buffers\n");
    return;
  }
  for (int n = 1; n <= ROUNDS; n++) {
    cl_int error;
    size_t global = 640, local = 64;
    cl_kernel kernel = trips_kernel();
    cl_command_buffer_khr buffer = clCreateCommandBufferKHR(1, &queue, NULL, &error);
    must(error, "command buffer");
    for (int command = 0; command < 2; command++) {
      if (while_recorded) fail(n);
      error = clCommandNDRangeKernelKHR(buffer, NULL, NULL, kernel, 1, NULL, &global, &local, 0,
                                        NULL, NULL, NULL);
      fail_no_more();
      must(error, "record");
    }
    must(clFinalizeCommandBufferKHR(buffer), "finalize");
    for (int replay = 0; replay < 2; replay++) {
      if (!while_recorded) fail(n);
      error = clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL);
      fail_no_more();
      must(error, "replay");
      must(clFinish(queue), "finish");
    }
    clReleaseCommandBufferKHR(buffer);
    clReleaseKernel(kernel);
  }
}

static void record(void) { buffers(1); }
static void replay(void) { buffers(0); }

static const struct one_case CASES[] = {
    {"launch", launch}, {"task", task}, {"record", record}, {"replay", replay}};

int main(int argc, char **argv) {
  on = argc > 2;
  clGetPlatformIDs(1, &platform, NULL);
  dl_iterate_phdr(find_layer, NULL);
  int status = run_case(CASES, sizeof CASES / sizeof *CASES, argc, argv);
  show_sink("sum");
  if (getenv("FAILED")) {
    FILE *file = fopen(getenv("FAILED"), "w");
    fprintf(file, "%d\n", failed);
    fclose(file);
  }
  return status;
}
