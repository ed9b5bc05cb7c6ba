/* SPDX-License-Identifier: Apache-2.0 */
/* What names an image in every run: its build-id, or a hash of its bytes. Plain C without libc and
 * without the rest of the common part: the Pin tools use it, too. */
#ifndef XPUPROF_BUILD_ID_H
#define XPUPROF_BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed); /* FNV-1a */
#define HASH_SEED 0xcbf29ce484222325ull

enum { BUILD_ID_ROOM = 2 * 64 + 2 };

/* The build-id among ELF notes, in lower-case hex; unchanged if there is none. */
void build_id_in_notes(char id[BUILD_ID_ROOM], const uint8_t *notes, size_t size);
/* For an image without one: "h" and 16 hex digits. */
void build_id_of_hash(char id[BUILD_ID_ROOM], uint64_t hash);

#ifdef __cplusplus
}
#endif
#endif
