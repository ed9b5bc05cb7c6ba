/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit content hash of a cubin. The CUPTI timer and the NVBit tool must agree on it, so that a
 * kernel of a profile can be found in a timer run. Not cryptographic. */
#ifndef XPUPROF_HASH128_H
#define XPUPROF_HASH128_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t xpu_mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

static inline void xpu_hash128(const void *data, size_t size, uint8_t out[16]) {
  const uint8_t *p = (const uint8_t *)data;
  uint64_t a = 0x9e3779b97f4a7c15u ^ size, b = 0xc2b2ae3d27d4eb4fu, word[2];
  while (size) {
    size_t step = size < sizeof word ? size : sizeof word;
    word[0] = word[1] = 0;
    memcpy(word, p, step);
    a = (a ^ word[0]) * 0x9fb21c651e98df25u;
    b = (b ^ word[1]) * 0xa0761d6478bd642fu;
    a ^= b >> 29;
    b ^= a >> 31;
    p += step;
    size -= step;
  }
  word[0] = xpu_mix64(a + 3 * b);
  word[1] = xpu_mix64(b ^ (a << 17 | a >> 47));
  memcpy(out, word, 16);
}

#endif
