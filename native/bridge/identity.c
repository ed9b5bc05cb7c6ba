/* SPDX-License-Identifier: Apache-2.0 */
/* The only implementation of block identities; trace_format.h defines them. */
#include "bridge.h"

uint64_t xp_identity_word(uint64_t hash, uint64_t word) {
  uint64_t x = hash ^ word;
  x += 0x9e3779b97f4a7c15u;
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

uint64_t xp_identity_bytes(uint64_t hash, const uint8_t *data, size_t size) {
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < size; i++) word |= (uint64_t)data[at + i] << 8 * i;
    hash = xp_identity_word(hash, word);
  }
  return xp_identity_word(hash, size);
}

uint64_t xp_identity_cpu(const uint8_t *build_id, size_t build_id_size, uint64_t offset,
                         uint64_t instructions) {
  uint64_t hash = xp_identity_bytes(XP_IDENTITY_CPU, build_id, build_id_size);
  return xp_identity_word(xp_identity_word(hash, offset), instructions);
}

uint64_t xp_identity_gpu(const uint8_t program_hash[16], const uint8_t *kernel, size_t kernel_size,
                         uint64_t block) {
  uint64_t hash = xp_identity_bytes(XP_IDENTITY_GPU, program_hash, 16);
  return xp_identity_word(xp_identity_bytes(hash, kernel, kernel_size), block);
}
