/* SPDX-License-Identifier: Apache-2.0 */
/* Trace writer: appends records to one stream file of trace_format.h. Plain C, no libc: the same
 * file serves the in-process runtime, the Valgrind tool, the DynamoRIO client and the Pin tools.
 * Not thread-safe: callers lock. */
#ifndef XPUPROF_WRITER_H
#define XPUPROF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "place.h"
#include "xpuprof/trace_format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xp_writer {
  xp_file file;
  const xp_place *place; /* notified of a failure; NULL: none */
  int is_open;           /* 0: closed or failed; every call is then a no-op */
  uint16_t stream;
  uint64_t chunk_offset;         /* where the open chunk (or the next one) starts in the file */
  struct xp_chunk_header *chunk; /* the open chunk; NULL: none */
  uint8_t *end;                  /* after the open chunk's last complete record */
  uint64_t room;                 /* bytes left in the open chunk */
  uint32_t crc;                  /* of the open chunk, carried along: sealing takes no time */
  int has_slice;                 /* a record of the open chunk refers to one */
} xp_writer;

/* A record's body under construction. Fixed room; `overflow` is set instead of writing past it. */
typedef struct xp_body {
  uint8_t *data;
  size_t size, room;
  int overflow;
} xp_body;

/* 0, or a negative error number of the kernel. */
int xp_writer_create(xp_writer *writer, const xp_os *os, const char *path, uint16_t stream);
/* This process's stream of an execution. `place` must stay valid: failures, this one included, are
 * reported there. When the place is full the stream ends before its next chunk, without END; that
 * is no failure, and the launcher says so. */
int xp_writer_open(xp_writer *writer, const xp_os *os, const xp_place *place, uint16_t stream);
/* Appends one record. `slice` widens the chunk's slice range; XP_NO_SLICE leaves it. */
#define XP_NO_SLICE UINT64_MAX
void xp_writer_put(xp_writer *writer, uint8_t tag, const xp_body *body, uint64_t slice);
void xp_writer_seal(xp_writer *writer);  /* ends the open chunk */
void xp_writer_close(xp_writer *writer); /* seals, cuts the file to size */
/* Ends the stream as it is, without END, and reports why. */
void xp_writer_fail(xp_writer *writer, const char *reason);
void xp_writer_abandon(xp_writer *writer); /* after fork, in the child: release, touch nothing */

void xp_body_init(xp_body *body, void *data, size_t room);
void xp_put_u8(xp_body *body, uint8_t value);
void xp_put_u64(xp_body *body, uint64_t value);
void xp_put_varint(xp_body *body, uint64_t value);
void xp_put_bytes(xp_body *body, const void *data, size_t size);
void xp_put_str(xp_body *body, const char *text); /* NULL counts as empty */

#define XP_VARINT_MAX 10 /* bytes of the longest varint */

int xp_has_crc32c(void);
uint32_t xp_crc32c(const void *data, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
