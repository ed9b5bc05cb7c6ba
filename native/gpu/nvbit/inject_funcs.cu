// SPDX-License-Identifier: Apache-2.0
/* Functions called before the first instruction of each basic block. NVBit finds them by name. The
 * leader of the active lanes adds; diverged lanes of a warp come group by group, each group with
 * its own leader, as the hardware issues them. */
#include <stddef.h>

#include "counters.h"

static __device__ __forceinline__ uint32_t lane() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}

static __device__ __forceinline__ uint64_t logical_warp() {
  uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
  uint64_t block = blockIdx.x + static_cast<uint64_t>(gridDim.x) *
                                    (blockIdx.y + static_cast<uint64_t>(gridDim.y) * blockIdx.z);
  uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return block * ((threads + 31) / 32) + thread / 32;
}

/* Counters and head lie in global memory; declaring it saves the instructions that check. The head
 * does not change while a kernel runs. */
static __device__ __forceinline__ void add(uint64_t address, uint64_t n) {
  asm volatile("red.global.add.u64 [%0], %1;" ::"l"(address), "l"(n) : "memory");
}

static __device__ __forceinline__ void count(uint64_t launch, uint32_t column,
                                             uint32_t instructions, uint32_t active) {
  const CounterHead *head = reinterpret_cast<const CounterHead *>(launch);
  uint64_t warp = logical_warp(), warps = __ldg(&head->warps);
  uint32_t row = __ldg(&head->row), lanes = static_cast<uint32_t>(__popc(active));
  if (warp >= warps || column >= row) {
    add(launch + offsetof(CounterHead, strays), 1);
    return;
  }
  uint64_t first = launch + sizeof(CounterHead) + warp * (row + 1ull) * sizeof(uint64_t);
  /* Groups of one warp may be interleaved, so the additions are atomic. Nothing waits for them. */
  add(first + column * sizeof(uint64_t), __ldg(&head->lanes) ? lanes : 1);
  add(first + row * sizeof(uint64_t), static_cast<uint64_t>(lanes) * instructions);
}

/* A block of the kernel itself: its ordinal is its column. */
extern "C" __device__ __noinline__ void xpuprof_count_block(uint32_t column, uint32_t instructions,
                                                            uint64_t launch) {
  if (!launch) return; /* a launch that is not counted */
  uint32_t active = __activemask();
  if (lane() == static_cast<uint32_t>(__ffs(active) - 1))
    count(launch, column, instructions, active);
}

/* A block of a function that kernels call: where its columns start depends on the kernel. */
extern "C" __device__ __noinline__ void xpuprof_count_called(uint32_t function, uint32_t block,
                                                             uint32_t instructions,
                                                             uint64_t launch) {
  if (!launch) return; /* a launch that is not counted */
  uint32_t active = __activemask();
  if (lane() != static_cast<uint32_t>(__ffs(active) - 1)) return;
  const CounterHead *head = reinterpret_cast<const CounterHead *>(launch);
  uint32_t base = NO_COLUMN;
  if (function < __ldg(&head->functions))
    base = __ldg(reinterpret_cast<const uint32_t *>(__ldg(&head->bases)) + function);
  count(launch, base == NO_COLUMN ? NO_COLUMN : base + block, instructions, active);
}
