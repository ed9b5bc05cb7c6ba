/* SPDX-License-Identifier: Apache-2.0 */
#include "build_id.h"

#include <elf.h>

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed) {
  const uint8_t *p = (const uint8_t *)data;
  for (size_t i = 0; i < size; i++) seed = (seed ^ p[i]) * 0x100000001b3ull;
  return seed;
}

static void put_hex(char *to, const uint8_t *bytes, size_t n) {
  static const char hex[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    *to++ = hex[bytes[i] >> 4];
    *to++ = hex[bytes[i] & 15];
  }
  *to = 0;
}

static size_t padded(uint32_t size) { return ((size_t)size + 3) & ~(size_t)3; }

void build_id_in_notes(char id[BUILD_ID_ROOM], const uint8_t *notes, size_t size) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    const Elf64_Nhdr *note = (const Elf64_Nhdr *)(const void *)(notes + at);
    const uint8_t *name = notes + at + sizeof *note;
    size_t data = at + sizeof *note + padded(note->n_namesz);
    if (data > size || note->n_descsz > size - data) return;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && name[0] == 'G' &&
        name[1] == 'N' && name[2] == 'U' && !name[3] && note->n_descsz &&
        note->n_descsz < BUILD_ID_ROOM / 2) {
      put_hex(id, notes + data, note->n_descsz);
      return;
    }
    at = data + padded(note->n_descsz);
  }
}

void build_id_of_hash(char id[BUILD_ID_ROOM], uint64_t hash) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(hash >> (56 - 8 * i));
  id[0] = 'h';
  put_hex(id + 1, bytes, sizeof bytes);
}
