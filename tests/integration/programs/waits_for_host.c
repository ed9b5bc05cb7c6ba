/* SPDX-License-Identifier: Apache-2.0 */
/* `shared`: a kernel waits until the host stores a number in shared memory, after the launch.
 * `native`: one waits behind a native kernel that waits for the host. */
#define CL_TARGET_OPENCL_VERSION 200
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "one_queue.h"

static const char *source =
    "kernel void relay(global volatile int *a) { while (!atomic_add(a, 0)); a[1] = a[0] + 5; }";
static atomic_int stored;

static void CL_CALLBACK wait_for_host(void *nothing) {
  (void)nothing;
  while (!stored) usleep(1000);
}

int main(int argc, char **argv) {
  size_t one = 1;
  cl_int error, twice[2];
  cl_event event;
  set_up(source);
  cl_kernel relay = kernel_of("relay");
  if (argc > 1 && !strcmp(argv[1], "native")) {
    cl_int given[2] = {1, 0};
    cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof given, given, &error);
    check(error);
    check(clSetKernelArg(relay, 0, sizeof buffer, &buffer));
    check(clEnqueueNativeKernel(queue, wait_for_host, NULL, 0, 0, NULL, NULL, 0, NULL, NULL));
    check(clEnqueueNDRangeKernel(queue, relay, 1, NULL, &one, &one, 0, NULL, NULL));
    stored = 1;
    check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof twice, twice, 0, NULL, NULL));
  } else {
    const cl_svm_mem_flags flags =
        CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS;
    atomic_int *shared = clSVMAlloc(context, flags, sizeof twice, 0);
    if (!shared) return 77;
    shared[0] = shared[1] = 0;
    check(clSetKernelArgSVMPointer(relay, 0, (void *)shared));
    check(clEnqueueNDRangeKernel(queue, relay, 1, NULL, &one, &one, 0, NULL, &event));
    check(clFlush(queue));
    shared[0] = 1;
    check(clWaitForEvents(1, &event));
    for (int i = 0; i < 2; i++) twice[i] = shared[i];
    clSVMFree(context, (void *)shared);
  }
  printf("%d %d\n", twice[0], twice[1]);
  return 0;
}
