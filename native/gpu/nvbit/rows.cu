// SPDX-License-Identifier: Apache-2.0
/* Our own kernels, run after a launch: they reduce what the host has to read. */
#include "row_hash.h"

/* Rows are `columns` counters of blocks and one of lane instructions (counters.h). One warp per
 * row: hashes[row] covers its blocks; the lane instructions of all rows are summed. */
extern "C" __global__ void xpuprof_hash_rows(const uint64_t *counters, uint64_t rows,
                                             uint32_t columns, RowHash *hashes,
                                             unsigned long long *lane_instructions) {
  uint64_t warp = (blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x) / 32;
  uint64_t warps = static_cast<uint64_t>(gridDim.x) * blockDim.x / 32;
  uint32_t lane = threadIdx.x % 32;
  unsigned long long lanes = 0;
  for (uint64_t row = warp; row < rows; row += warps) {
    RowHash hash = {0, 0};
    for (uint32_t column = lane; column < columns; column += 32)
      row_hash_add(&hash, column, counters[row * (columns + 1ull) + column]);
    for (int distance = 16; distance > 0; distance /= 2) {
      hash.a += __shfl_down_sync(0xffffffffu, hash.a, distance);
      hash.b += __shfl_down_sync(0xffffffffu, hash.b, distance);
    }
    if (lane == 0) {
      hashes[row] = hash;
      lanes += counters[row * (columns + 1ull) + columns];
    }
  }
  if (lanes) atomicAdd(lane_instructions, lanes);
}

/* to[i] = the blocks of row which[i]. */
extern "C" __global__ void xpuprof_gather_rows(const uint64_t *counters, const uint64_t *which,
                                               uint64_t n, uint32_t columns, uint64_t *to) {
  for (uint64_t i = blockIdx.x; i < n; i += gridDim.x)
    for (uint32_t column = threadIdx.x; column < columns; column += blockDim.x)
      to[i * columns + column] = counters[which[i] * (columns + 1ull) + column];
}
