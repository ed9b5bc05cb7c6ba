// SPDX-License-Identifier: Apache-2.0
/* A stand-in for libze_loader: a kernel's handle is its number in fake_gtpin. */
#include <stdint.h>
extern "C" {
void fake_gtpin_run(int kernel);
struct count;
static uint32_t run(void *kernel) {
  fake_gtpin_run(static_cast<int>(reinterpret_cast<intptr_t>(kernel)));
  return 0;
}
uint32_t zeKernelSetGroupSize(void *, uint32_t x, uint32_t, uint32_t) {
  return x > 1024 ? 0x78000009 /* ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION */ : 0;
}
uint32_t zeCommandListAppendLaunchKernel(void *, void *kernel, const count *, void *, uint32_t,
                                         void **) {
  return run(kernel);
}
uint32_t zeCommandListAppendLaunchCooperativeKernel(void *, void *kernel, const count *, void *,
                                                    uint32_t, void **) {
  return run(kernel);
}
uint32_t zeCommandListAppendLaunchKernelIndirect(void *, void *kernel, const count *, void *,
                                                 uint32_t, void **) {
  return run(kernel);
}
}
