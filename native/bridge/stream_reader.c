/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the chunks of a stream file. The file is read, not mapped: a stream that is still
 * being written is cut to size when it is closed, and access to a mapping of the lost tail would
 * kill us. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "decode.h"
#include "writer.h"

typedef struct chunk_place {
  uint64_t offset; /* of the payload */
  uint64_t length;
} chunk_place;

struct xp_stream_reader {
  int fd;
  uint64_t file_size;
  uint32_t stream;
  chunk_place *chunks;
  uint64_t n_chunks, chunk_room;
  uint8_t *buffer;
  uint64_t buffer_room;
  xp_counts counts;
  xp_counts largest;  /* rows of each table that one chunk has */
  xp_decoder decoder; /* of the second walk */
  uint64_t decoded;   /* chunks decoded so far */
};

enum { HEADER = sizeof(struct xp_chunk_header) };

static int read_at(xp_stream_reader *s, void *to, uint64_t size, uint64_t offset, xp_error *error) {
  uint8_t *p = to;
  while (size) {
    ssize_t n = pread(s->fd, p, size, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return xp_fail(error, XP_E_READ, offset, (uint64_t)errno, 0);
    if (n == 0) return xp_fail(error, XP_E_CHANGED, offset, 0, 0); /* it had these bytes */
    p += n;
    offset += (uint64_t)n;
    size -= (uint64_t)n;
  }
  return 0;
}

static int read_payload(xp_stream_reader *s, chunk_place chunk, xp_error *error) {
  if (chunk.length > s->buffer_room) {
    free(s->buffer);
    s->buffer = malloc(chunk.length);
    s->buffer_room = s->buffer ? chunk.length : 0;
    if (!s->buffer) return xp_fail(error, XP_E_MEMORY, chunk.offset, chunk.length, 0);
  }
  return read_at(s, s->buffer, chunk.length, chunk.offset, error);
}

static int keep_chunk(xp_stream_reader *s, chunk_place chunk, xp_error *error) {
  if (s->n_chunks == s->chunk_room) {
    uint64_t room = s->chunk_room ? 2 * s->chunk_room : 64;
    chunk_place *grown = realloc(s->chunks, room * sizeof *grown);
    if (!grown) return xp_fail(error, XP_E_MEMORY, chunk.offset, room * sizeof *grown, 0);
    s->chunks = grown;
    s->chunk_room = room;
  }
  s->chunks[s->n_chunks++] = chunk;
  return 0;
}

/* Only zeros follow the last chunk: anything else means that a header was damaged. The header
 * itself may be incomplete: its magic is written last. */
static int only_zeros(xp_stream_reader *s, uint64_t offset, xp_error *error) {
  uint8_t block[4096];
  uint64_t at = offset + HEADER;
  for (;;) {
    off_t data = lseek(s->fd, (off_t)at, SEEK_DATA); /* the rest is mostly a hole */
    if (data >= 0) at = (uint64_t)data;
    if (at >= s->file_size || (data < 0 && errno == ENXIO)) return 0;
    uint64_t size = s->file_size - at < sizeof block ? s->file_size - at : sizeof block;
    if (read_at(s, block, size, at, error) < 0) return -1;
    for (uint64_t i = 0; i < size; i++)
      if (block[i]) return xp_fail(error, XP_E_CHUNK, offset, 0, 0);
    at += size;
  }
}

/* A chunk that is open in the middle of a stream has a damaged state. */
static int nothing_follows(xp_stream_reader *s, uint64_t offset, uint64_t next, xp_error *error) {
  struct xp_chunk_header header;
  if (next + HEADER > s->file_size) return 0;
  if (read_at(s, &header, HEADER, next, error) < 0) return -1;
  if (header.magic == XP_MAGIC && header.stream == s->stream &&
      header.length <= s->file_size - next - HEADER)
    return xp_fail(error, XP_E_CHUNK, offset, header.state, 0);
  return 0;
}

static int check_header(xp_stream_reader *s, const struct xp_chunk_header *header, uint64_t offset,
                        xp_error *error) {
  if (header->magic != XP_MAGIC)
    return xp_fail(error, s->n_chunks ? XP_E_CHUNK : XP_E_FOREIGN, offset, header->magic, 0);
  if (header->version > XP_VERSION_CURRENT)
    return xp_fail(error, XP_E_NEWER, offset, header->version, XP_VERSION_CURRENT);
  if (header->version < XP_VERSION_OLDEST_SUPPORTED)
    return xp_fail(error, XP_E_VERSION, offset, header->version, 0);
  if (header->stream != s->stream)
    return xp_fail(error, XP_E_STREAM, offset, header->stream, s->stream);
  if (header->state != XP_CHUNK_OPEN && header->state != XP_CHUNK_SEALED)
    return xp_fail(error, XP_E_CHUNK, offset, header->state, 0);
  uint64_t left = s->file_size - offset - HEADER;
  if (header->length > left) return xp_fail(error, XP_E_TRUNCATED, offset, header->length, left);
  return 0;
}

/* 1: a chunk was read and `offset` moved past it, 0: end of the stream, -1: error. */
static int next_chunk(xp_stream_reader *s, xp_decoder *decoder, uint64_t *offset, xp_error *error) {
  struct xp_chunk_header header;
  uint64_t left = s->file_size - *offset;
  memset(&header, 0, sizeof header);
  if (!left) return 0;
  if (read_at(s, &header, left < HEADER ? left : HEADER, *offset, error) < 0) return -1;
  if (!header.magic && (left >= HEADER || !header.version)) return only_zeros(s, *offset, error);
  if (left < HEADER) {
    if (!s->n_chunks && header.magic != XP_MAGIC)
      return xp_fail(error, XP_E_FOREIGN, *offset, header.magic, 0);
    return xp_fail(error, XP_E_TRUNCATED, *offset, HEADER, left);
  }
  if (check_header(s, &header, *offset, error) < 0) return -1;

  chunk_place chunk = {*offset + HEADER, header.length};
  uint64_t next = *offset + ((HEADER + header.length + 7) & ~(uint64_t)7);
  if (header.state == XP_CHUNK_OPEN && nothing_follows(s, *offset, next, error) < 0) return -1;
  if (read_payload(s, chunk, error) < 0) return -1;
  if (header.state == XP_CHUNK_SEALED) {
    uint32_t crc = xp_crc32c(s->buffer, chunk.length);
    if (crc != header.crc32c) return xp_fail(error, XP_E_CRC, *offset, header.crc32c, crc);
  }
  if (xp_decode_chunk(decoder, s->buffer, chunk.length, chunk.offset) < 0 ||
      keep_chunk(s, chunk, error) < 0)
    return -1;
  *offset = next;
  return header.state == XP_CHUNK_SEALED && next < s->file_size;
}

/* Counts are numbers of 64 bits, whatever they are called. */
enum { N_COUNTS = sizeof(xp_counts) / sizeof(uint64_t) };

static void widen(xp_counts *largest, const xp_counts *before, const xp_counts *after) {
  uint64_t then[N_COUNTS], now[N_COUNTS], most[N_COUNTS];
  memcpy(then, before, sizeof then);
  memcpy(now, after, sizeof now);
  memcpy(most, largest, sizeof most);
  for (int i = 0; i < N_COUNTS; i++)
    if (now[i] - then[i] > most[i]) most[i] = now[i] - then[i];
  memcpy(largest, most, sizeof most);
}

static int count(xp_stream_reader *s, xp_error *error) {
  xp_decoder decoder = {.stream = s->stream, .error = error};
  uint64_t offset = 0;
  int more = 1;
  while (more > 0) {
    xp_counts before = decoder.rows;
    more = next_chunk(s, &decoder, &offset, error);
    before.ended = 0; /* the only count that may decrease */
    widen(&s->largest, &before, &decoder.rows);
  }
  decoder.rows.chunks = s->n_chunks;
  decoder.rows.bytes = offset < s->file_size ? offset : s->file_size;
  s->counts = decoder.rows;
  return more;
}

/* Whoever reads a run opens its streams several times. A stream that has ended is counted, and its
 * checksums are compared, once: until its file changes. */
typedef struct counted_file {
  struct stat status;
  uint32_t stream;
  chunk_place *chunks; /* NULL: the place is free */
  uint64_t n_chunks;
  xp_counts counts, largest;
} counted_file;

enum { MOST_COUNTED = 16 };
static counted_file counted[MOST_COUNTED];
static unsigned next_counted;
static pthread_mutex_t counted_lock = PTHREAD_MUTEX_INITIALIZER;

static int same_time(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static int is_of(const counted_file *known, const struct stat *status, uint32_t stream) {
  return known->chunks && known->stream == stream && known->status.st_dev == status->st_dev &&
         known->status.st_ino == status->st_ino && known->status.st_size == status->st_size &&
         same_time(known->status.st_mtim, status->st_mtim) &&
         same_time(known->status.st_ctim, status->st_ctim);
}

/* File systems' clocks tick every few milliseconds: a change within the tick would not show. */
static int is_settled(const struct stat *status) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t age = (now.tv_sec - status->st_ctim.tv_sec) * INT64_C(1000) +
                (now.tv_nsec - status->st_ctim.tv_nsec) / 1000000;
  return age > 100;
}

static chunk_place *copy_of(const chunk_place *chunks, uint64_t n) {
  chunk_place *copy = malloc(n * sizeof *copy);
  if (copy) memcpy(copy, chunks, n * sizeof *copy);
  return copy;
}

static int is_counted(xp_stream_reader *s, const struct stat *status) {
  int found = 0;
  pthread_mutex_lock(&counted_lock);
  for (int i = 0; i < MOST_COUNTED && !found; i++) {
    const counted_file *known = &counted[i];
    if (!is_of(known, status, s->stream)) continue;
    s->chunks = copy_of(known->chunks, known->n_chunks);
    found = s->chunks != 0;
    s->n_chunks = s->chunk_room = found ? known->n_chunks : 0;
    s->counts = known->counts;
    s->largest = known->largest;
  }
  pthread_mutex_unlock(&counted_lock);
  return found;
}

static void keep_count(const xp_stream_reader *s, const struct stat *status) {
  if (!s->counts.ended || !is_settled(status)) return; /* it may still be written */
  pthread_mutex_lock(&counted_lock);
  counted_file *place = &counted[next_counted++ % MOST_COUNTED];
  free(place->chunks);
  *place = (counted_file){*status,     s->stream, copy_of(s->chunks, s->n_chunks),
                          s->n_chunks, s->counts, s->largest};
  pthread_mutex_unlock(&counted_lock);
}

xp_stream_reader *xp_stream_open(const char *path, uint32_t stream, xp_counts *counts,
                                 xp_error *error) {
  struct stat status;
  xp_fail(error, XP_OK, 0, 0, 0);
  xp_stream_reader *s = calloc(1, sizeof *s);
  if (!s) {
    xp_fail(error, XP_E_MEMORY, 0, sizeof *s, 0);
    return 0;
  }
  s->stream = stream;
  s->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (s->fd < 0 || fstat(s->fd, &status) < 0 || (!S_ISREG(status.st_mode) && (errno = EINVAL))) {
    xp_fail(error, XP_E_OPEN, 0, (uint64_t)errno, 0);
    xp_stream_close(s);
    return 0;
  }
  s->file_size = (uint64_t)status.st_size;
  if (!is_counted(s, &status)) {
    if (count(s, error) < 0) {
      xp_stream_close(s);
      return 0;
    }
    keep_count(s, &status);
  }
  *counts = s->counts;
  xp_stream_rewind(s);
  return s;
}

int32_t xp_stream_next(xp_stream_reader *s, const xp_arrays *arrays, const xp_counts *first,
                       const xp_counts *room, xp_counts *rows, xp_error *error) {
  xp_fail(error, XP_OK, 0, 0, 0);
  if (s->decoded == s->n_chunks) return 0;
  chunk_place chunk = s->chunks[s->decoded++];
  s->decoder.out = arrays;
  s->decoder.first = *first;
  s->decoder.room = *room;
  s->decoder.error = error;
  if (read_payload(s, chunk, error) < 0 ||
      xp_decode_chunk(&s->decoder, s->buffer, chunk.length, chunk.offset) < 0)
    return -1;
  *rows = s->decoder.rows;
  return 1;
}

void xp_stream_rewind(xp_stream_reader *s) {
  s->decoder = (xp_decoder){.stream = s->stream};
  s->decoded = 0;
}

void xp_stream_largest(const xp_stream_reader *s, xp_counts *largest) { *largest = s->largest; }

void xp_stream_close(xp_stream_reader *s) {
  if (!s) return;
  if (s->fd >= 0) close(s->fd);
  free(s->chunks);
  free(s->buffer);
  free(s);
}

uint64_t xp_stream_progress(const char *path, uint64_t *offset) {
  struct xp_chunk_header header;
  uint64_t slices = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  while (pread(fd, &header, HEADER, (off_t)*offset) == HEADER && header.magic == XP_MAGIC) {
    if (header.last_slice) slices = header.last_slice + 1; /* slices count from 0 */
    uint64_t next = *offset + HEADER + (header.length + 7) / 8 * 8;
    if (header.state != XP_CHUNK_SEALED || next <= *offset) break;
    *offset = next;
  }
  close(fd);
  return slices;
}
