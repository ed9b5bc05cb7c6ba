// SPDX-License-Identifier: Apache-2.0
/* A library of the program's that uses Level Zero, as SYCL's runtime has one. */
#include <stdint.h>
struct count {
  uint32_t x, y, z;
};
extern "C" {
uint32_t zeKernelSetGroupSize(void *, uint32_t, uint32_t, uint32_t);
uint32_t zeCommandListAppendLaunchKernel(void *, void *, const count *, void *, uint32_t, void **);
uint32_t zeCommandListAppendLaunchCooperativeKernel(void *, void *, const count *, void *, uint32_t,
                                                    void **);
uint32_t zeCommandListAppendLaunchKernelIndirect(void *, void *, const count *, void *, uint32_t,
                                                 void **);
void launch_all() {
  char *kernel = nullptr;
  count counts = {5, 2, 1}, more = {3, 1, 1};
  zeKernelSetGroupSize(kernel, 32, 4, 1);
  zeKernelSetGroupSize(kernel + 1, 8, 1, 1);
  zeCommandListAppendLaunchKernel(nullptr, kernel, &counts, nullptr, 0, nullptr);
  zeCommandListAppendLaunchCooperativeKernel(nullptr, kernel + 1, &more, nullptr, 0, nullptr);
  zeKernelSetGroupSize(kernel, 4096, 1, 1); /* refused */
  zeCommandListAppendLaunchKernel(nullptr, kernel, &more, nullptr, 0, nullptr);
  zeCommandListAppendLaunchKernelIndirect(nullptr, kernel, &more, nullptr, 0, nullptr);
}
}
