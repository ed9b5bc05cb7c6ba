/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a basic block in every run: the build-id of its image and its offset there. */
#ifndef XPUPROF_PIN_IDENTITY_H
#define XPUPROF_PIN_IDENTITY_H

#include <stdint.h>

#include <string>

/* Lower-case hex; for a file without one, "h" and 16 hex digits of a hash of its bytes (FNV-1a, as
 * in the valgrind engine); empty when the file cannot be read. */
std::string build_id_of(const std::string &path);

uint64_t hash_bytes(const void *data, uint64_t size, uint64_t seed);
enum : uint64_t { HASH_SEED = 0xcbf29ce484222325ull };

#endif
