/* SPDX-License-Identifier: Apache-2.0 */
#include "grid_table.h"

#include <stdlib.h>
#include <string.h>

typedef struct hash128 {
  uint64_t a, b;
} hash128;

static uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void add(hash128 *h, uint64_t word) {
  h->a = mix(h->a ^ word) + 0x9e3779b97f4a7c15u;
  h->b = mix(h->b + word * 0xd6e8feb86659fd93u) ^ 0xa0761d6478bd642fu;
}

static int grow(intern_table *t) {
  size_t room = t->room ? 2 * t->room : 64;
  intern_entry *entries = calloc(room, sizeof *entries);
  if (!entries) return 0;
  for (size_t i = 0; i < t->room; i++)
    if (t->entries[i].hash[0]) {
      size_t at = t->entries[i].hash[0] & (room - 1);
      while (entries[at].hash[0]) at = (at + 1) & (room - 1);
      entries[at] = t->entries[i];
    }
  free(t->entries);
  t->entries = entries;
  t->room = room;
  return 1;
}

/* Out of memory: the content counts as new under the next id, which only costs space. */
static int intern(intern_table *t, hash128 h, uint64_t *id) {
  h.a |= 1; /* 0 marks a free entry */
  if (4 * (t->used + 1) > 3 * t->room && !grow(t) && t->used + 1 >= t->room) {
    *id = t->used++;
    return 1;
  }
  size_t at = h.a & (t->room - 1);
  while (t->entries[at].hash[0]) {
    if (t->entries[at].hash[0] == h.a && t->entries[at].hash[1] == h.b) {
      *id = t->entries[at].id;
      return 0;
    }
    at = (at + 1) & (t->room - 1);
  }
  *id = t->used++;
  t->entries[at] = (intern_entry){{h.a, h.b}, *id};
  return 1;
}

int grid_table_vector(grid_table *table, uint32_t kernel, const uint64_t *counts, uint32_t n_blocks,
                      uint64_t *id) {
  hash128 h = {kernel, ~(uint64_t)kernel};
  for (uint32_t b = 0; b < n_blocks; b++) add(&h, counts[b]);
  return intern(&table->vectors, h, id);
}

int grid_table_grid(grid_table *table, const xpu_grid *grid, const uint64_t *vector_ids,
                    uint64_t *id) {
  hash128 h = {grid->kernel, ~(uint64_t)grid->kernel};
  for (uint64_t r = 0; r < grid->n_runs; r++) {
    add(&h, vector_ids[grid->run_vector[r]]);
    add(&h, grid->run_length[r]);
  }
  return intern(&table->grids, h, id);
}

void grid_table_clear(grid_table *table) {
  free(table->vectors.entries);
  free(table->grids.entries);
  memset(table, 0, sizeof *table);
}
