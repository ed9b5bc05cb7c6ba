/* SPDX-License-Identifier: Apache-2.0 */
/* SimPoint's frequency vector text: lines "T:dimension:value :dimension:value ...". */
#include <stdlib.h>
#include <string.h>

#include "select.h"

static const char *skip_blanks(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
  return p;
}

/* Digits to *number; NULL when there are none, or too many for 64 bits. */
static const char *read_integer(const char *p, const char *end, uint64_t *number) {
  const char *from = p;
  uint64_t n = 0;
  while (p < end && *p >= '0' && *p <= '9') {
    if (n > (UINT64_MAX - 9) / 10) return NULL;
    n = n * 10 + (uint64_t)(*p++ - '0');
  }
  *number = n;
  return p == from ? NULL : p;
}

/* A count: nearly always an integer; the few others (1.5, 1e6) take the slow path. */
static const char *read_value(const char *p, const char *end, double *value) {
  uint64_t n;
  const char *after = read_integer(p, end, &n);
  if (after && (after == end || (*after != '.' && *after != 'e' && *after != 'E'))) {
    *value = (double)n;
    return after;
  }
  char copy[64], *stop;
  size_t size = (size_t)(end - p) < sizeof copy - 1 ? (size_t)(end - p) : sizeof copy - 1;
  memcpy(copy, p, size);
  copy[size] = 0;
  *value = strtod(copy, &stop);
  if (stop == copy || !(*value >= 0.0 && *value < 1e300)) return NULL;
  return p + (stop - copy);
}

int xps_parse_frequency(const char *text, uint64_t size, uint64_t *rows, uint64_t *entries,
                        uint64_t *row_start, uint64_t *dimension, double *value, uint64_t *line) {
  const char *p = text, *end = text + size;
  uint64_t row = 0, entry = 0;
  *line = 0;
  while (p < end) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) stop = end;
    ++*line;
    if (*p == 'T') {
      if (stop == end && skip_blanks(p + 1, stop) == stop) return XPS_EINPUT; /* cut short */
      if (row_start) row_start[row] = entry;
      row++;
      for (p = skip_blanks(p + 1, stop); p < stop; p = skip_blanks(p, stop), entry++) {
        uint64_t id;
        double number;
        if (*p != ':' || !(p = read_integer(p + 1, stop, &id)) || p >= stop || *p != ':' ||
            !(p = read_value(p + 1, stop, &number)))
          return XPS_EINPUT;
        if (dimension) dimension[entry] = id;
        if (value) value[entry] = number;
      }
    } else if (*p == ':') { /* its T is lost; other lines are comments, or tools' own */
      return XPS_EINPUT;
    }
    p = stop + 1;
  }
  if (row_start) row_start[row] = entry;
  *rows = row;
  *entries = entry;
  return 0;
}
