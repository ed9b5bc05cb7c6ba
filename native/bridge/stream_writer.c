/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's writer for Python. */
#include <errno.h>
#include <stdlib.h>

#include "bridge.h"
#include "writer.h"

struct xp_stream_writer {
  xp_writer writer;
};

xp_stream_writer *xp_stream_create(const char *path, uint32_t stream) {
  xp_stream_writer *w = malloc(sizeof *w);
  int error = w ? xp_writer_create(&w->writer, &xp_linux, path, (uint16_t)stream) : -ENOMEM;
  if (!error) return w;
  free(w);
  errno = -error;
  return 0;
}

int32_t xp_stream_put(xp_stream_writer *w, uint32_t tag, const uint8_t *body, size_t size,
                      uint64_t slice) {
  xp_body record = {(uint8_t *)(uintptr_t)body, size, size, 0};
  xp_writer_put(&w->writer, (uint8_t)tag, &record, slice);
  return w->writer.is_open ? 0 : -1;
}

void xp_stream_seal(xp_stream_writer *w) { xp_writer_seal(&w->writer); }

void xp_stream_finish(xp_stream_writer *w) {
  xp_writer_close(&w->writer);
  free(w);
}

void xp_stream_abandon(xp_stream_writer *w) {
  xp_writer_fail(&w->writer, "abandoned");
  free(w);
}

uint32_t xp_checksum(const uint8_t *data, size_t size) { return xp_crc32c(data, size); }
