/* SPDX-License-Identifier: Apache-2.0 */
/* Interns warp vectors and grids by content, so that a million identical launches are stored once.
 * Contents are compared by 128-bit hashes. */
#ifndef XPUPROF_GRID_TABLE_H
#define XPUPROF_GRID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "xpuprof/boundary.h"

typedef struct intern_entry {
  uint64_t hash[2];
  uint64_t id;
} intern_entry;

typedef struct intern_table {
  intern_entry *entries; /* open addressing; room is a power of two */
  size_t used, room;
} intern_table;

typedef struct grid_table {
  intern_table vectors, grids;
} grid_table;

/* Both return 1 when the content is new (write it) and set its dense id. */
int grid_table_vector(grid_table *table, uint32_t kernel, const uint64_t *counts, uint32_t n_blocks,
                      uint64_t *id);
int grid_table_grid(grid_table *table, const xpu_grid *grid, const uint64_t *vector_ids,
                    uint64_t *id);
void grid_table_clear(grid_table *table);

#endif
