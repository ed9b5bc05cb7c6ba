/* SPDX-License-Identifier: Apache-2.0 */
/* The writer on any sequence of records: records written are read back, chunk by chunk. Input: tag,
 * length, body, over and over; tag 0 seals the chunk. Tags that no reader knows are counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridge.h"

enum { UNKNOWN_TAG = 100 };

static uint64_t put_records(xp_stream_writer *writer, const uint8_t *data, size_t size) {
  uint64_t records = 0;
  for (size_t at = 0; at + 2 <= size;) {
    uint8_t tag = data[at], length = data[at + 1];
    at += 2;
    if (length > size - at) break;
    if (!tag) {
      xp_stream_seal(writer);
      continue;
    }
    size_t repeat = tag & 1 ? 1 + (size_t)tag * 16 : 1; /* some fill a chunk */
    for (size_t i = 0; i < repeat; i++, records++)
      if (xp_stream_put(writer, UNKNOWN_TAG + tag % 100, data + at, length, at)) abort();
    at += length;
  }
  return records;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  xp_counts counts;
  xp_error error;
  snprintf(path, sizeof path, "/dev/shm/xpuprof-fuzz-writer.%d", getpid());
  unlink(path);
  xp_stream_writer *writer = xp_stream_create(path, XP_STREAM_EVENTS);
  if (!writer) return 0;
  uint64_t records = put_records(writer, data, size);
  if (size & 1)
    xp_stream_finish(writer);
  else
    xp_stream_abandon(writer);
  xp_stream_reader *reader = xp_stream_open(path, XP_STREAM_EVENTS, &counts, &error);
  if (!reader || counts.unknown_records != records) abort();
  xp_stream_close(reader);
  unlink(path);
  return 0;
}
