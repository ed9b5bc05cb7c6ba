/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a device side: launches one kernel through the boundary bus, as a layer does. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include <string.h>

#include "xpuprof/boundary.h"

static uint32_t device_start(void) {
  static const uint8_t hash[16] = {1};
  xpu_block block = {.instructions = 1, .mix = {1}};
  xpu_gpu_init("stand-in", "1", "lane", 32);
  return xpu_kernel_built(xpu_program_built(hash, 0, "test"), "kernel", 1, &block, 0);
}

static uint64_t device_launch(uint32_t kernel) {
  xpu_launch launch = {.kernel = kernel, .dimensions = 1};
  for (int d = 0; d < 3; d++) launch.global[d] = launch.local[d] = 1;
  xpu_api_enter();
  uint64_t number = xpu_kernel_run(&launch);
  xpu_api_leave();
  return number;
}

#endif
