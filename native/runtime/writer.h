/* Trace writer: appends records to one stream file of trace_format.h. Plain C, no libc: the
 * platform comes in through xp_os, so the same file serves the in-process runtime, the Valgrind
 * tool (Valgrind's own libc) and the Pin tools (Pin's). Not thread-safe: callers lock. */
#ifndef XPUPROF_WRITER_H
#define XPUPROF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "xpuprof/trace_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the writer needs of the platform. Every call returns a negative value on failure. */
typedef struct xp_os {
  int (*create)(const char *path); /* new file for reading and writing; refuses an existing one */
  int (*resize)(int fd, uint64_t size);
  void *(*map)(int fd, uint64_t offset, uint64_t size); /* shared, read-write; NULL on failure */
  void (*unmap)(void *address, uint64_t size);
  void (*close)(int fd);
} xp_os;

typedef struct xp_writer {
  const xp_os *os;
  int fd; /* -1: closed or failed; every call is then a no-op */
  uint16_t stream;
  uint64_t chunk_offset; /* where the open chunk (or the next one) starts in the file */
  uint8_t *window;       /* mapping that holds the open chunk; NULL: none open */
  uint64_t window_size;
  struct xp_chunk_header *chunk;
  uint8_t *end;  /* behind the open chunk's last whole record */
  uint64_t room; /* bytes left in the open chunk */
} xp_writer;

/* A record's body under construction. Fixed room; `overflow` is set instead of writing past it. */
typedef struct xp_body {
  uint8_t *data;
  size_t size, room;
  int overflow;
} xp_body;

int xp_writer_open(xp_writer *writer, const xp_os *os, const char *path, uint16_t stream);
/* Appends one record. `slice` widens the chunk's slice range; XP_NO_SLICE leaves it. */
#define XP_NO_SLICE UINT64_MAX
void xp_writer_put(xp_writer *writer, uint8_t tag, const void *body, uint64_t size, uint64_t slice);
void xp_writer_seal(xp_writer *writer);    /* ends the open chunk */
void xp_writer_close(xp_writer *writer);   /* seals, cuts the file to size, closes */
void xp_writer_abandon(xp_writer *writer); /* after fork, in the child: let go, touch nothing */

void xp_body_init(xp_body *body, void *data, size_t room);
void xp_put_u8(xp_body *body, uint8_t value);
void xp_put_u64(xp_body *body, uint64_t value);
void xp_put_varint(xp_body *body, uint64_t value);
void xp_put_bytes(xp_body *body, const void *data, size_t size);
void xp_put_str(xp_body *body, const char *text); /* NULL counts as empty */

#define XP_VARINT_MAX 10 /* bytes of the longest varint */

uint32_t xp_crc32c(const void *data, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
