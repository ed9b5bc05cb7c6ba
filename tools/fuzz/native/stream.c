/* SPDX-License-Identifier: Apache-2.0 */
/* The stream reader on any bytes. The first byte chooses the stream and whether checksums are
 * corrected first, so that damage reaches the records. Arrays have exactly the rows that were
 * counted: one row too many is an overflow that the address sanitiser sees. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"
#include "scratch_file.h"
#include "tables.h"

enum { CPU_STREAM = 1, MEND_CHECKSUMS = 2 };

#define ONE_MORE(array, count) +1
_Static_assert(sizeof(xp_arrays) == sizeof(void *) * (0 TABLES(ONE_MORE)),
               "tables.h names every array of xp_arrays");

static void mend_checksums(uint8_t *data, size_t size) {
  struct xp_chunk_header header;
  for (size_t at = 0; size - at >= sizeof header;) {
    memcpy(&header, data + at, sizeof header);
    if (header.length > size - at - sizeof header) return;
    header.crc32c = xp_checksum(data + at + sizeof header, header.length);
    memcpy(data + at, &header, sizeof header);
    size_t next = at + ((sizeof header + header.length + 7) & ~(size_t)7);
    if (next > size) return;
    at = next;
  }
}

#define MAKE(array, count) arrays.array = calloc(room.count, sizeof *arrays.array);
#define FREE(array, count) free(arrays.array);

/* Decodes all chunks: into the whole tables, or with room for one chunk, but for the rows that
 * others refer to, which are kept from row 0 on. */
static void decode(xp_stream_reader *reader, const xp_counts *counts, int whole) {
  xp_arrays arrays;
  xp_error error;
  xp_counts room = *counts, first, rows;
  memset(&first, 0, sizeof first);
  memset(&rows, 0, sizeof rows);
#define KEEP(table) room.table = counts->table;
#define FROM_ZERO(table) first.table = 0;
#define KEPT(DO) DO(texts) DO(programs) DO(kernels) DO(images) DO(vectors)
  if (!whole) {
    xp_stream_largest(reader, &room);
    KEPT(KEEP)
  }
  TABLES(MAKE)
  xp_stream_rewind(reader);
  do {
    if (whole) continue;
    first = rows;
    KEPT(FROM_ZERO)
  } while (xp_stream_next(reader, &arrays, &first, &room, &rows, &error) > 0);
  TABLES(FREE)
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  uint8_t *copy = malloc(size);
  memcpy(copy, data, size);
  if (data[0] & MEND_CHECKSUMS) mend_checksums(copy + 1, size - 1);
  xp_counts counts;
  xp_error error;
  const char *path = scratch_file(copy + 1, size - 1);
  free(copy);
  xp_stream_reader *reader = xp_stream_open(
      path, data[0] & CPU_STREAM ? XP_STREAM_CPU : XP_STREAM_EVENTS, &counts, &error);
  if (reader) {
    decode(reader, &counts, 1);
    decode(reader, &counts, 0);
  }
  xp_stream_close(reader);
  return 0;
}
