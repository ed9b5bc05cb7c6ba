/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* Basic blocks by identity (image, offset, instructions): a block keeps its id when its code is
 * translated again, or its library loaded again elsewhere. */
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

typedef struct block {
  ULong offset;
  UInt image, instructions;
} block;

static block *blocks;
static UInt n_blocks, blocks_room;
static UInt *table; /* open addressing: id + 1, or 0 */
static UInt table_room;

static UInt slot_of(const block *b) {
  ULong h = b->offset * 0x9e3779b97f4a7c15ULL ^ ((ULong)b->image << 32 | b->instructions);
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ULL;
  return (UInt)(h >> 32) & (table_room - 1);
}

static Bool same(const block *a, const block *b) {
  return a->offset == b->offset && a->image == b->image && a->instructions == b->instructions;
}

static void grow(void) {
  blocks_room = blocks_room ? 2 * blocks_room : 16384;
  table_room = 2 * blocks_room;
  blocks = VG_(realloc)("xpuprof.blocks", blocks, blocks_room * sizeof *blocks);
  VG_(free)(table);
  table = VG_(calloc)("xpuprof.blocks", table_room, sizeof *table);
  for (UInt id = 0; id < n_blocks; id++) {
    UInt at = slot_of(&blocks[id]);
    while (table[at]) at = (at + 1) & (table_room - 1);
    table[at] = id + 1;
  }
}

static UInt intern(const block *b) {
  if (n_blocks == blocks_room) grow();
  UInt at = slot_of(b);
  for (; table[at]; at = (at + 1) & (table_room - 1))
    if (same(&blocks[table[at] - 1], b)) return table[at] - 1;
  if (n_blocks == MAX_BLOCKS) {
    stream_give_up("it has more than 4 million basic blocks");
    return NO_BLOCK;
  }
  blocks[n_blocks] = *b;
  table[at] = ++n_blocks;
  return n_blocks - 1;
}

UInt block_id(Addr start, UInt bytes, UInt instructions) {
  code_place place = image_place(start);
  if (place.image == NO_IMAGE) return NO_BLOCK;
  if (option_filters_routines()) {
    const HChar *routine = "";
    VG_(get_fnname)(VG_(current_DiEpoch)(), start, &routine);
    if (!option_counts_routine(routine)) return NO_BLOCK;
  }
  block b = {place.in_file ? place.offset : hash_bytes((const UChar *)start, bytes, HASH_SEED),
             place.image, instructions};
  return intern(&b);
}

UInt blocks_known(void) { return n_blocks; }

UInt block_instructions(UInt id) { return blocks[id].instructions; }

void blocks_emit(UInt first) {
  for (UInt id = first; id < n_blocks; id++) {
    xp_body record = stream_body(4 * XP_VARINT_MAX);
    xp_put_varint(&record, id);
    xp_put_varint(&record, blocks[id].image);
    xp_put_varint(&record, blocks[id].offset);
    xp_put_varint(&record, blocks[id].instructions);
    stream_put(XP_CPU_BLOCK, &record, XP_NO_SLICE);
  }
}
