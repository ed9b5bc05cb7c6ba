/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <asm/errno.h>
#include <cpuid.h>

/* A chunk is large enough that mapping it is rare, small enough that a short run stays small. */
enum { CHUNK_ROOM = 256 * 1024, PAGE = 4096 };

static void copy(uint8_t *to, const uint8_t *from, uint64_t size) {
  /* `rep movsb`: no call, which a platform without libc would lack. */
  unsigned long left = (unsigned long)size; /* as wide as the register */
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
}

/* ---- CRC32C (Castagnoli), as SSE4.2 computes it ---------------------------------------------- */

int xp_has_crc32c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2;
}

__attribute__((target("sse4.2"))) static uint32_t crc_add(uint32_t crc, const uint8_t *p,
                                                          uint64_t size) {
  for (uint64_t word; size >= 8; size -= 8, p += 8) {
    __builtin_memcpy(&word, p, 8);
    crc = (uint32_t)__builtin_ia32_crc32di(crc, word);
  }
  for (; size; size--, p++) crc = __builtin_ia32_crc32qi(crc, *p);
  return crc;
}

uint32_t xp_crc32c(const void *data, uint64_t size) {
  return ~crc_add(~0u, (const uint8_t *)data, size);
}

/* ---- record bodies -------------------------------------------------------------------------- */

void xp_body_init(xp_body *body, void *data, size_t room) {
  body->data = (uint8_t *)data;
  body->size = 0;
  body->room = room;
  body->overflow = 0;
}

static uint8_t *take_bytes(xp_body *body, size_t size) {
  if (body->room - body->size < size) {
    body->overflow = 1;
    return 0;
  }
  body->size += size;
  return body->data + body->size - size;
}

void xp_put_u8(xp_body *body, uint8_t value) {
  uint8_t *to = take_bytes(body, 1);
  if (to) *to = value;
}

void xp_put_u64(xp_body *body, uint64_t value) {
  uint8_t *to = take_bytes(body, 8);
  if (to) __builtin_memcpy(to, &value, 8); /* one store */
}

void xp_put_bytes(xp_body *body, const void *data, size_t size) {
  uint8_t *to = take_bytes(body, size);
  if (to) copy(to, (const uint8_t *)data, size);
}

static unsigned encode_varint(uint8_t out[XP_VARINT_MAX], uint64_t value) {
  unsigned n = 0;
  while (value >= 0x80) {
    out[n++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  out[n++] = (uint8_t)value;
  return n;
}

void xp_put_varint(xp_body *body, uint64_t value) {
  if (body->room - body->size >= XP_VARINT_MAX) {
    body->size += encode_varint(body->data + body->size, value);
    return;
  }
  uint8_t bytes[XP_VARINT_MAX];
  xp_put_bytes(body, bytes, encode_varint(bytes, value));
}

void xp_put_str(xp_body *body, const char *text) {
  size_t size = 0;
  while (text && text[size]) size++;
  xp_put_varint(body, size);
  xp_put_bytes(body, text, size);
}

/* ---- chunks --------------------------------------------------------------------------------- */

/* The kernel's error in the user's terms. */
static const char *reason_of(int error) {
  switch (-error) {
    case EPERM:
    case EACCES:
    case EROFS:
      return "the process may not write into the run directory";
    case ENOENT:
    case ENOTDIR:
      return "the process cannot reach the run directory";
    case ENOMEM:
      return "there is no memory for its trace";
    case EFAULT: /* a page without disk space, or after the end of the file */
    case ENOSPC:
    case EDQUOT:
      return "the disk of the run directory is full, or the run has ended; make room, or name "
             "another folder";
    case EEXIST:
      return "it executed another program or loaded our library twice (dlmopen), and the first "
             "trace is kept";
    case EMFILE:
    case ENFILE:
      return "the process has no descriptor left to open its trace with";
    case EOPNOTSUPP:
      return "the processor lacks SSE4.2, with which traces are checked";
    case EFBIG:
      return "its trace has reached the limit on file sizes";
    default:
      return "its trace cannot be written";
  }
}

void xp_writer_fail(xp_writer *w, const char *reason) {
  uint64_t size = w->chunk_offset;
  if (!w->is_open) return;
  if (w->chunk) size += sizeof *w->chunk + w->chunk->length;
  w->is_open = 0;
  w->chunk = 0;
  xp_file_cut(&w->file, size);
  if (w->place) xp_place_failure(w->place, reason);
}

int xp_writer_create(xp_writer *w, const xp_os *os, const char *path, uint16_t stream) {
  w->stream = stream;
  w->chunk_offset = 0;
  w->chunk = 0;
  w->place = 0;
  int error = xp_has_crc32c() ? xp_file_create(&w->file, os, path, CHUNK_ROOM) : -EOPNOTSUPP;
  w->is_open = !error;
  return error;
}

int xp_writer_open(xp_writer *w, const xp_os *os, const xp_place *place, uint16_t stream) {
  char path[XP_PATH_MAX];
  w->is_open = 0;
  if (xp_place_full(place)) return -EDQUOT;
  int error = xp_place_file(place, stream == XP_STREAM_CPU ? "cpu.xpt" : "events.xpt", path);
  if (!error) error = xp_writer_create(w, os, path, stream);
  w->place = place;
  if (error) xp_place_failure(place, reason_of(error));
  return error;
}

static int open_chunk(xp_writer *w, uint64_t record) {
  uint64_t start = w->chunk_offset & ~(uint64_t)(PAGE - 1);
  uint64_t head = w->chunk_offset - start + sizeof *w->chunk;
  uint64_t need = head + (record > CHUNK_ROOM - PAGE ? record : CHUNK_ROOM - PAGE);
  uint64_t size = (need + 2 * PAGE - 1) & ~(uint64_t)(PAGE - 1);
  int error = xp_file_slide(&w->file, start, size);
  if (!error) error = xp_file_take(&w->file, head);
  if (error) return error;
  w->crc = ~0u;
  w->has_slice = 0;
  w->chunk = (struct xp_chunk_header *)(w->file.window + (w->chunk_offset - start));
  w->end = w->file.window + head;
  w->room = size - PAGE - head;
  w->chunk->stream = w->stream;
  w->chunk->version = XP_VERSION_CURRENT;
  w->chunk->state = XP_CHUNK_OPEN;
  w->chunk->first_slice = w->chunk->last_slice = 0;
  /* The magic makes the chunk visible; it comes last. */
  __atomic_store_n(&w->chunk->length, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&w->chunk->magic, XP_MAGIC, __ATOMIC_RELEASE);
  return 0;
}

void xp_writer_seal(xp_writer *w) {
  if (!w->is_open || !w->chunk) return;
  w->chunk->crc32c = ~w->crc;
  __atomic_store_n(&w->chunk->state, XP_CHUNK_SEALED, __ATOMIC_RELEASE);
  uint64_t size = sizeof *w->chunk + w->chunk->length;
  w->chunk_offset += (size + 7) & ~(uint64_t)7;
  w->chunk = 0;
}

static void append(xp_writer *w, uint8_t tag, const xp_body *body) {
  uint8_t *p = w->end;
  *p++ = tag;
  p += encode_varint(p, body->size);
  copy(p, body->data, body->size);
  p += body->size;
  w->crc = crc_add(w->crc, w->end, (uint64_t)(p - w->end));
  w->room -= (uint64_t)(p - w->end);
  w->end = p;
}

void xp_writer_put(xp_writer *w, uint8_t tag, const xp_body *body, uint64_t slice) {
  if (!w->is_open) return;
  if (body->overflow) { /* no trace rather than a wrong one */
    xp_writer_fail(w, "there is no memory for a record of its trace");
    return;
  }
  uint64_t record = 1 + XP_VARINT_MAX + body->size;
  if (w->chunk && w->room < record) {
    xp_writer_seal(w);
    if (w->place && xp_place_full(w->place)) {
      xp_writer_close(w);
      return;
    }
  }
  int error = w->chunk ? 0 : open_chunk(w, record);
  if (!error) error = xp_file_take(&w->file, (uint64_t)(w->end - w->file.window) + record);
  if (error) {
    xp_writer_fail(w, reason_of(error));
    return;
  }
  append(w, tag, body);
  if (slice != XP_NO_SLICE) {
    if (!w->has_slice || slice < w->chunk->first_slice) w->chunk->first_slice = slice;
    if (slice > w->chunk->last_slice) w->chunk->last_slice = slice;
    w->has_slice = 1;
  }
  /* x86 keeps the order of stores: a reader that sees the length sees the record. */
  __atomic_store_n(&w->chunk->length, (uint64_t)(w->end - (uint8_t *)(w->chunk + 1)),
                   __ATOMIC_RELEASE);
}

void xp_writer_close(xp_writer *w) {
  if (!w->is_open) return;
  xp_writer_seal(w);
  w->is_open = 0;
  xp_file_cut(&w->file, w->chunk_offset);
}

void xp_writer_abandon(xp_writer *w) {
  if (!w->is_open) return;
  w->is_open = 0;
  w->chunk = 0;
  xp_file_unmap(&w->file);
}
