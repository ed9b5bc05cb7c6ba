/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the records of chunks into rows. The same walk counts (no arrays yet) and fills; a table
 * without an array is only counted. */
#ifndef XPUPROF_DECODE_H
#define XPUPROF_DECODE_H

#include "bridge.h"

typedef struct xp_decoder {
  uint32_t stream;
  const xp_arrays *out; /* NULL while counting */
  xp_counts rows;       /* so far */
  xp_counts first;      /* number of the first row in each array */
  xp_counts room;       /* rows in `out`: the file may change between the two walks */
  xp_error *error;
  struct reason {
    const uint8_t *bytes;
    xp_text text;
  } reasons[16]; /* of launches in this chunk: the same reason is one text */
  uint32_t n_reasons;
} xp_decoder;

/* 0, or -1 with the decoder's error set. `file_offset` is where `data` lies in the file. */
int xp_decode_chunk(xp_decoder *decoder, const uint8_t *data, uint64_t size, uint64_t file_offset);

int xp_fail(xp_error *error, int32_t code, uint64_t offset, uint64_t a, uint64_t b); /* -1 */

#endif
