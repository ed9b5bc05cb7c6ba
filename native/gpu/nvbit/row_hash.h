/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit hash of a row of counters as a sum over its columns, so that the lanes of a warp can
 * take columns in any order. Shared by host and device. */
#ifndef XPUPROF_NVBIT_ROW_HASH_H
#define XPUPROF_NVBIT_ROW_HASH_H

#include <stdint.h>

#ifdef __CUDACC__
#define XPU_HOST_DEVICE __host__ __device__
#else
#define XPU_HOST_DEVICE
#endif

struct RowHash {
  uint64_t a, b;
};

XPU_HOST_DEVICE static inline uint64_t row_hash_mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Columns with a zero count add nothing. */
XPU_HOST_DEVICE static inline void row_hash_add(RowHash *hash, uint32_t column, uint64_t count) {
  if (!count) return;
  uint64_t at = row_hash_mix(column + 0x9e3779b97f4a7c15u);
  hash->a += row_hash_mix(count ^ at);
  hash->b += row_hash_mix(count * 0xd6e8feb86659fd93u + (at << 1 | 1));
}

/* Of a whole row, in the host's memory. */
static inline RowHash row_hash(const uint64_t *row, uint32_t columns) {
  RowHash hash = {0, 0};
  for (uint32_t column = 0; column < columns; column++) row_hash_add(&hash, column, row[column]);
  return hash;
}

#endif
