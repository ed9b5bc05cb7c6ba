// SPDX-License-Identifier: Apache-2.0
/* A stand-in for libOpenCL: a kernel's handle is its number in fake_gtpin. */
#include <stddef.h>
#include <stdint.h>
extern "C" {
void fake_gtpin_run(int kernel);
int32_t clEnqueueNDRangeKernel(void *, void *kernel, uint32_t, const size_t *, const size_t *,
                               const size_t *, uint32_t, void *const *, void **) {
  fake_gtpin_run(static_cast<int>(reinterpret_cast<intptr_t>(kernel)));
  return 0;
}
}
