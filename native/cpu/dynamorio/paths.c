/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that run one after the other in a trace, as far as it was followed. A path is a shorter
 * path plus its last block, so paths share common prefixes. One execution of a path is one
 * execution of each of its blocks. */
#include "client.h"

typedef struct path {
  uint32_t before; /* the path without its last block, or NO_PATH */
  uint32_t block;
} path;

static path *paths;
static size_t n_paths, paths_room, table_room;
static uint32_t *table; /* open addressing: path + 1, or 0 */

static size_t place_of(const path *p) {
  uint64_t h = ((uint64_t)p->before << 32 | p->block) * 0x9e3779b97f4a7c15ull;
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
  size_t at = (size_t)(h >> 32) & (table_room - 1);
  for (; table[at]; at = (at + 1) & (table_room - 1)) {
    const path *known = &paths[table[at] - 1];
    if (known->before == p->before && known->block == p->block) break;
  }
  return at;
}

static void make_room(void) {
  if (n_paths < paths_room) return;
  paths = grown(paths, &paths_room, n_paths + 1, sizeof *paths);
  if (table) engine_free(table, table_room * sizeof *table);
  table_room = 0;
  table = grown(NULL, &table_room, 2 * paths_room, sizeof *table);
  for (size_t p = 0; p < n_paths; p++) table[place_of(&paths[p])] = (uint32_t)p + 1;
}

uint32_t path_with(uint32_t before, uint32_t block) {
  path p = {before, block};
  make_room();
  size_t at = place_of(&p);
  if (table[at]) return table[at] - 1;
  if (n_paths == MAX_PATHS) {
    stream_give_up("it has more than 2 million paths through traces");
    return NO_PATH;
  }
  paths[n_paths] = p;
  table[at] = (uint32_t)++n_paths;
  return (uint32_t)n_paths - 1;
}

size_t paths_known(void) { return n_paths; }

uint32_t path_before(uint32_t p) { return paths[p].before; }

uint32_t path_block(uint32_t p) { return paths[p].block; }

uint64_t path_instructions(uint32_t p) {
  uint64_t sum = 0;
  for (; p != NO_PATH; p = paths[p].before) sum += block_instructions(paths[p].block);
  return sum;
}
