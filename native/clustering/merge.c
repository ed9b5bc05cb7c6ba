/* SPDX-License-Identifier: Apache-2.0 */
/* Equal rows become one weighted point. */
#include <stdlib.h>
#include <string.h>

#include "select.h"

static uint64_t hash_row(const float *row, uint32_t dim) {
  uint64_t hash = XPS_GOLDEN;
  uint32_t d = 0;
  for (; d + 2 <= dim; d += 2) {
    uint64_t pair;
    memcpy(&pair, row + d, sizeof pair);
    hash = (hash ^ pair) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  if (d < dim) {
    uint32_t last;
    memcpy(&last, row + d, sizeof last);
    hash = (hash ^ last) * 0xff51afd7ed558ccdu;
  }
  return xps_mix(hash);
}

int xps_merge(uint64_t rows, uint32_t dim, const float *x, uint32_t *point, uint64_t *first,
              uint64_t *points) {
  uint64_t slots = 64;
  if (rows >= UINT32_MAX) return XPS_EINPUT;
  while (slots < 2 * rows) slots *= 2;
  uint32_t *table = malloc(slots * sizeof(uint32_t)); /* point + 1; 0: empty */
  if (!table) return XPS_EMEMORY;
  memset(table, 0, slots * sizeof(uint32_t));
  *points = 0;
  for (uint64_t i = 0; i < rows; i++) {
    const float *row = x + i * dim;
    uint64_t slot = hash_row(row, dim) & (slots - 1);
    while (table[slot] && memcmp(x + first[table[slot] - 1] * dim, row, dim * sizeof(float)))
      slot = (slot + 1) & (slots - 1);
    if (!table[slot]) {
      first[*points] = i;
      table[slot] = (uint32_t)++ * points;
    }
    point[i] = table[slot] - 1;
  }
  free(table);
  return 0;
}

int xps_draw(uint64_t rows, uint32_t dim, const float *x, uint64_t seed, double *uniform) {
  uint64_t start = xps_mix(seed + XPS_GOLDEN);
  for (uint64_t i = 0; i < rows; i++)
    uniform[i] = (double)(xps_mix(hash_row(x + i * dim, dim) ^ start) >> 11) * 0x1p-53;
  return 0;
}
