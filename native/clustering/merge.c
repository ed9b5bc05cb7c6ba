/* SPDX-License-Identifier: Apache-2.0 */
/* Equal rows become one weighted point. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "select.h"

static inline uint64_t hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdu;
  return hash ^ hash >> 32;
}

static uint64_t hash_row(const float *row, uint32_t dim) {
  uint64_t hash = XPS_GOLDEN;
  uint32_t d = 0;
  for (; d + 2 <= dim; d += 2) {
    uint64_t pair;
    memcpy(&pair, row + d, sizeof pair);
    hash = hash_word(hash, pair);
  }
  if (d < dim) {
    uint32_t last;
    memcpy(&last, row + d, sizeof last);
    hash = (hash ^ last) * 0xff51afd7ed558ccdu;
  }
  return xps_mix(hash);
}

/* Rows of either kind: of `dim` floats, or of the entries from start[i] to start[i + 1]. */
struct source {
  uint32_t dim;
  const float *x;
  const uint64_t *start, *count;
  const uint32_t *thread, *block;
};

typedef uint64_t hash_function(const struct source *, uint64_t row);
typedef bool equal_function(const struct source *, uint64_t a, uint64_t b);

static uint64_t hash_dense(const struct source *from, uint64_t row) {
  return hash_row(from->x + row * from->dim, from->dim);
}

static bool equal_dense(const struct source *from, uint64_t a, uint64_t b) {
  uint32_t dim = from->dim;
  return !memcmp(from->x + a * dim, from->x + b * dim, dim * sizeof *from->x);
}

static uint64_t hash_entries(const struct source *from, uint64_t row) {
  uint64_t hash = XPS_GOLDEN;
  for (uint64_t i = from->start[row]; i < from->start[row + 1]; i++) {
    hash = hash_word(hash, (uint64_t)from->thread[i] << 32 | from->block[i]);
    hash = hash_word(hash, from->count[i]);
  }
  return xps_mix(hash);
}

static bool equal_entries(const struct source *from, uint64_t a, uint64_t b) {
  uint64_t i = from->start[a], k = from->start[b], n = from->start[a + 1] - i;
  return n == from->start[b + 1] - k &&
         !memcmp(from->thread + i, from->thread + k, n * sizeof *from->thread) &&
         !memcmp(from->block + i, from->block + k, n * sizeof *from->block) &&
         !memcmp(from->count + i, from->count + k, n * sizeof *from->count);
}

static int merge(uint64_t n, const struct source *from, hash_function *hash, equal_function *equal,
                 uint32_t *point, uint64_t *first, uint64_t *points) {
  uint64_t slots = 64;
  if (n >= UINT32_MAX) return XPS_EINPUT;
  while (slots < 2 * n) slots *= 2;
  uint32_t *table = calloc(slots, sizeof(uint32_t)); /* point + 1; 0: empty */
  if (!table) return XPS_EMEMORY;
  *points = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t slot = hash(from, i) & (slots - 1);
    while (table[slot] && !equal(from, first[table[slot] - 1], i)) slot = (slot + 1) & (slots - 1);
    if (!table[slot]) {
      first[*points] = i;
      table[slot] = (uint32_t)++ * points;
    }
    point[i] = table[slot] - 1;
  }
  free(table);
  return 0;
}

int xps_merge(uint64_t rows, uint32_t dim, const float *x, uint32_t *point, uint64_t *first,
              uint64_t *points) {
  struct source dense = {.dim = dim, .x = x};
  return merge(rows, &dense, hash_dense, equal_dense, point, first, points);
}

int xps_merge_cpu(uint64_t slices, const uint64_t *slice_start, const uint32_t *thread,
                  const uint32_t *block, const uint64_t *count, uint32_t *point, uint64_t *first,
                  uint64_t *points) {
  struct source entries = {.start = slice_start, .thread = thread, .block = block, .count = count};
  return merge(slices, &entries, hash_entries, equal_entries, point, first, points);
}

int xps_draw(uint64_t rows, uint32_t dim, const float *x, uint64_t seed, double *uniform) {
  uint64_t start = xps_mix(seed + XPS_GOLDEN);
  for (uint64_t i = 0; i < rows; i++)
    uniform[i] = (double)(xps_mix(hash_row(x + i * dim, dim) ^ start) >> 11) * 0x1p-53;
  return 0;
}
