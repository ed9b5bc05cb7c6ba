/* SPDX-License-Identifier: Apache-2.0 */
/* Basic blocks by identity (image, offset, instructions): a block keeps its id when its code is
 * retranslated, or its library reloaded elsewhere. */
#include "engine.h"

typedef struct block {
  uint64_t offset;
  uint32_t image, instructions;
} block;

static block *blocks;
static size_t n_blocks, blocks_room;
static uint32_t *table; /* open addressing: id + 1, or 0 */
static size_t table_room;

static size_t slot_of(const block *b) {
  uint64_t h = b->offset * 0x9e3779b97f4a7c15ull ^ ((uint64_t)b->image << 32 | b->instructions);
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
  return (size_t)(h >> 32) & (table_room - 1);
}

static bool same(const block *a, const block *b) {
  return a->offset == b->offset && a->image == b->image && a->instructions == b->instructions;
}

static void make_room(void) {
  if (n_blocks < blocks_room) return;
  blocks = enlarged(blocks, &blocks_room, n_blocks + 1, sizeof *blocks);
  if (table) engine_free(table, table_room * sizeof *table);
  table_room = 0;
  table = grown(NULL, &table_room, 2 * blocks_room, sizeof *table);
  for (size_t id = 0; id < n_blocks; id++) {
    size_t at = slot_of(&blocks[id]);
    while (table[at]) at = (at + 1) & (table_room - 1);
    table[at] = (uint32_t)id + 1;
  }
}

static uint32_t intern(const block *b) {
  make_room();
  size_t at = slot_of(b);
  for (; table[at]; at = (at + 1) & (table_room - 1))
    if (same(&blocks[table[at] - 1], b)) return table[at] - 1;
  if (n_blocks == MAX_BLOCKS) {
    stream_give_up("it has more than 4 million basic blocks");
    return NO_BLOCK;
  }
  blocks[n_blocks] = *b;
  table[at] = (uint32_t)++n_blocks;
  return (uint32_t)n_blocks - 1;
}

uint32_t block_of(code_place place, const void *start, size_t bytes, uint32_t instructions) {
  if (place.image == NO_IMAGE) return NO_BLOCK;
  block b = {place.in_file ? place.offset : hash_bytes(start, bytes, HASH_SEED), place.image,
             instructions};
  return intern(&b);
}

size_t blocks_known(void) { return n_blocks; }

uint32_t block_instructions(uint32_t id) { return blocks[id].instructions; }

void blocks_emit(size_t first) {
  for (size_t id = first; id < n_blocks; id++) {
    xp_body record = stream_body(4 * XP_VARINT_MAX);
    xp_put_varint(&record, id);
    xp_put_varint(&record, blocks[id].image);
    xp_put_varint(&record, blocks[id].offset);
    xp_put_varint(&record, blocks[id].instructions);
    stream_put(XP_CPU_BLOCK, &record, XP_NO_SLICE);
  }
}
