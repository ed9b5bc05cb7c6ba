#include "writer.h"

/* A chunk is large enough that mapping it is rare, small enough that a short run stays small. */
enum { CHUNK_ROOM = 256 * 1024, PAGE = 4096 };

static void copy(uint8_t *to, const uint8_t *from, uint64_t size) {
  /* `rep movsb`: no call that a platform without libc would lack. */
  unsigned long left = (unsigned long)size; /* as wide as the register */
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
}

/* ---- CRC32C (Castagnoli), reflected, slicing by 8 ------------------------------------------- */

static uint32_t crc_table[8][256];

static void crc_prepare(void) {
  if (crc_table[0][1]) return;
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    crc_table[0][i] = c;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t i = 0; i < 256; i++)
      crc_table[k][i] = crc_table[0][crc_table[k - 1][i] & 0xff] ^ (crc_table[k - 1][i] >> 8);
}

uint32_t xp_crc32c(const void *data, uint64_t size) {
  const uint8_t *p = (const uint8_t *)data;
  uint32_t crc = 0xFFFFFFFFu;
  crc_prepare();
  for (; size >= 8; size -= 8, p += 8) {
    uint32_t lo =
        crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    crc = crc_table[7][lo & 0xff] ^ crc_table[6][lo >> 8 & 0xff] ^ crc_table[5][lo >> 16 & 0xff] ^
          crc_table[4][lo >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^
          crc_table[0][p[7]];
  }
  for (; size; size--, p++) crc = crc_table[0][(crc ^ *p) & 0xff] ^ (crc >> 8);
  return ~crc;
}

/* ---- record bodies -------------------------------------------------------------------------- */

void xp_body_init(xp_body *body, void *data, size_t room) {
  body->data = (uint8_t *)data;
  body->size = 0;
  body->room = room;
  body->overflow = 0;
}

void xp_put_bytes(xp_body *body, const void *data, size_t size) {
  if (body->room - body->size < size) {
    body->overflow = 1;
    return;
  }
  copy(body->data + body->size, (const uint8_t *)data, size);
  body->size += size;
}

void xp_put_u8(xp_body *body, uint8_t value) { xp_put_bytes(body, &value, 1); }

void xp_put_u64(xp_body *body, uint64_t value) { xp_put_bytes(body, &value, 8); }

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

static void fail(xp_writer *w) {
  if (w->window) w->os->unmap(w->window, w->window_size);
  if (w->fd >= 0) w->os->close(w->fd);
  w->window = 0;
  w->fd = -1;
}

int xp_writer_open(xp_writer *w, const xp_os *os, const char *path, uint16_t stream) {
  crc_prepare();
  w->os = os;
  w->stream = stream;
  w->chunk_offset = 0;
  w->window = 0;
  w->fd = os->create(path);
  return w->fd;
}

static void open_chunk(xp_writer *w, uint64_t record) {
  uint64_t start = w->chunk_offset & ~(uint64_t)(PAGE - 1);
  uint64_t head = w->chunk_offset - start + sizeof(struct xp_chunk_header);
  uint64_t need = head + (record > CHUNK_ROOM ? record : CHUNK_ROOM);
  uint64_t size = (need + PAGE - 1) & ~(uint64_t)(PAGE - 1);
  if (w->os->resize(w->fd, start + size) < 0 ||
      !(w->window = (uint8_t *)w->os->map(w->fd, start, size))) {
    fail(w);
    return;
  }
  w->window_size = size;
  w->chunk = (struct xp_chunk_header *)(w->window + (w->chunk_offset - start));
  w->end = w->window + head;
  w->room = size - head;
  w->chunk->stream = w->stream;
  w->chunk->version = XP_VERSION_CURRENT;
  w->chunk->state = XP_CHUNK_OPEN;
  w->chunk->first_slice = w->chunk->last_slice = 0;
  /* The magic makes the chunk visible; it comes last. */
  __atomic_store_n(&w->chunk->length, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&w->chunk->magic, XP_MAGIC, __ATOMIC_RELEASE);
}

void xp_writer_seal(xp_writer *w) {
  if (w->fd < 0 || !w->window) return;
  w->chunk->crc32c = xp_crc32c(w->chunk + 1, w->chunk->length);
  __atomic_store_n(&w->chunk->state, XP_CHUNK_SEALED, __ATOMIC_RELEASE);
  uint64_t size = sizeof(struct xp_chunk_header) + w->chunk->length;
  w->chunk_offset += (size + 7) & ~(uint64_t)7;
  w->os->unmap(w->window, w->window_size);
  w->window = 0;
}

void xp_writer_put(xp_writer *w, uint8_t tag, const void *body, uint64_t size, uint64_t slice) {
  if (w->fd < 0) return;
  uint64_t record = 1 + XP_VARINT_MAX + size;
  if (w->window && w->room < record) xp_writer_seal(w);
  if (!w->window) {
    open_chunk(w, record);
    if (!w->window) return;
  }
  uint8_t *p = w->end;
  *p++ = tag;
  p += encode_varint(p, size);
  copy(p, (const uint8_t *)body, size);
  p += size;
  if (slice != XP_NO_SLICE) {
    if (w->chunk->last_slice == 0 && w->chunk->first_slice == 0) w->chunk->first_slice = slice;
    if (slice < w->chunk->first_slice) w->chunk->first_slice = slice;
    if (slice > w->chunk->last_slice) w->chunk->last_slice = slice;
  }
  w->room -= (uint64_t)(p - w->end);
  w->end = p;
  /* x86 keeps the order of stores: whoever sees the length sees the record. */
  __atomic_store_n(&w->chunk->length, (uint64_t)(p - (uint8_t *)(w->chunk + 1)), __ATOMIC_RELEASE);
}

void xp_writer_close(xp_writer *w) {
  if (w->fd < 0) return;
  xp_writer_seal(w);
  if (w->fd < 0) return;
  w->os->resize(w->fd, w->chunk_offset);
  w->os->close(w->fd);
  w->fd = -1;
}

void xp_writer_abandon(xp_writer *w) {
  if (w->fd < 0) return;
  if (w->window) w->os->unmap(w->window, w->window_size);
  w->os->close(w->fd);
  w->window = 0;
  w->fd = -1;
}
