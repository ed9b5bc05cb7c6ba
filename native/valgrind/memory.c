/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* LRU stack distances of data accesses (option --memory): of each access of a thread, how many
 * other lines the thread touched since it last touched this one. Exact.
 *
 * The stack is kept in two parts. The most recent lines stand in a short array, moved to front at
 * each access, where nearly all accesses end. A line that falls out of it gets the next slot of a
 * Fenwick tree, which counts the lines in younger slots in logarithmic time; slots are renumbered
 * when they run out. The stack lives as long as the thread: it is what warm-up has to restore. */
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

enum { LINE_BITS = 6, FRONT = 16, FIRST_ROOM = 1 << 12 };

typedef struct entry {
  ULong line; /* + 1, so that 0 marks a free entry */
  UInt slot;  /* 0: in the front */
} entry;

struct distances {
  ULong front[FRONT]; /* most recent first */
  UInt front_used;
  entry *table; /* every line ever touched; open addressing */
  UInt table_used, table_room;
  UInt *tree;       /* Fenwick: live slots */
  ULong *slot_line; /* by slot, from 1 */
  UInt slots_used, slots_room, live;
  ULong histogram[XP_LDV_BUCKETS];
};

static distances *current; /* of the running thread; NULL while it does not count */

distances *memory_new(void) {
  distances *d = VG_(calloc)("xpuprof.memory", 1, sizeof *d);
  d->table_room = FIRST_ROOM;
  d->table = VG_(calloc)("xpuprof.memory", d->table_room, sizeof *d->table);
  return d;
}

void memory_free(distances *d) {
  if (current == d) current = NULL;
  if (!d) return;
  VG_(free)(d->table);
  VG_(free)(d->tree);
  VG_(free)(d->slot_line);
  VG_(free)(d);
}

void memory_switch(distances *d) { current = d; }

/* ---- lines ever touched ---------------------------------------------------------------------- */

static entry *find(const distances *d, ULong line) {
  UInt mask = d->table_room - 1, at = (UInt)(line * 0x9e3779b97f4a7c15ULL >> 32) & mask;
  while (d->table[at].line && d->table[at].line != line + 1) at = (at + 1) & mask;
  return &d->table[at];
}

static void grow_table(distances *d) {
  entry *old = d->table;
  UInt old_room = d->table_room;
  d->table_room *= 2;
  d->table = VG_(calloc)("xpuprof.memory", d->table_room, sizeof *d->table);
  for (UInt i = 0; i < old_room; i++)
    if (old[i].line) *find(d, old[i].line - 1) = old[i];
  VG_(free)(old);
}

/* ---- older lines ----------------------------------------------------------------------------- */

static void tree_add(distances *d, UInt slot, Int amount) {
  for (; slot <= d->slots_room; slot += slot & -slot) d->tree[slot] += (UInt)amount;
}

static UInt tree_sum(const distances *d, UInt slot) {
  UInt sum = 0;
  for (; slot; slot &= slot - 1) sum += d->tree[slot];
  return sum;
}

/* Gives the live lines the lowest slots, in their order, and room for as many again. */
static void renumber(distances *d) {
  UInt room = FIRST_ROOM, slots = 0;
  while (room < 2 * (d->live + 1)) room *= 2;
  ULong *lines = VG_(malloc)("xpuprof.memory", (room + 1) * sizeof *lines);
  for (UInt s = 1; s <= d->slots_used; s++) {
    entry *e = find(d, d->slot_line[s]);
    if (e->slot != s) continue;
    lines[++slots] = d->slot_line[s];
    e->slot = slots;
  }
  VG_(free)(d->slot_line);
  VG_(free)(d->tree);
  d->slot_line = lines;
  d->slots_used = slots;
  d->slots_room = room;
  d->tree = VG_(calloc)("xpuprof.memory", room + 1, sizeof *d->tree);
  for (UInt s = 1; s <= slots; s++) tree_add(d, s, 1);
}

static void push_old(distances *d, ULong line) {
  if (d->slots_used == d->slots_room) renumber(d);
  UInt slot = ++d->slots_used;
  d->slot_line[slot] = line;
  find(d, line)->slot = slot;
  tree_add(d, slot, 1);
  d->live++;
}

/* ---- an access ------------------------------------------------------------------------------- */

static UInt bucket(ULong distance) { return distance ? 64 - (UInt)__builtin_clzll(distance) : 0; }

/* Bucket of an access to a line that is not in the front; takes it out of the older lines. */
static UInt take_old(distances *d, ULong line) {
  entry *e = find(d, line);
  if (!e->line) {
    *e = (entry){line + 1, 0};
    if (4 * ++d->table_used > 3 * d->table_room) grow_table(d);
    return XP_LDV_COLD;
  }
  UInt younger = d->live - tree_sum(d, e->slot);
  tree_add(d, e->slot, -1);
  e->slot = 0;
  d->live--;
  return bucket((ULong)d->front_used + younger);
}

static void touch(distances *d, ULong line) {
  UInt at = 0;
  while (at < d->front_used && d->front[at] != line) at++;
  if (at < d->front_used) {
    d->histogram[bucket(at)]++;
  } else {
    d->histogram[take_old(d, line)]++;
    if (d->front_used == FRONT)
      push_old(d, d->front[at = FRONT - 1]);
    else
      d->front_used++;
  }
  for (; at; at--) d->front[at] = d->front[at - 1];
  d->front[0] = line;
}

/* Called from the instrumented code. An access across a line's end touches each line. */
void memory_access(Addr address, UWord size) {
  if (!current) return;
  ULong last = (address + size - 1) >> LINE_BITS;
  for (ULong line = address >> LINE_BITS; line <= last; line++) touch(current, line);
}

/* ---- records --------------------------------------------------------------------------------- */

void memory_reset(distances *d) { VG_(memset)(d->histogram, 0, sizeof d->histogram); }

void memory_flush(distances *d, UInt thread, ULong slice) {
  UInt n = 0, last = 0;
  for (UInt b = 0; b < XP_LDV_BUCKETS; b++) n += d->histogram[b] != 0;
  if (!n) return;
  xp_body record = stream_body((3 + 2 * (SizeT)n) * XP_VARINT_MAX);
  xp_put_varint(&record, slice);
  xp_put_varint(&record, thread);
  xp_put_varint(&record, n);
  for (UInt b = 0; b < XP_LDV_BUCKETS; b++) {
    if (!d->histogram[b]) continue;
    xp_put_varint(&record, b - last);
    xp_put_varint(&record, d->histogram[b]);
    last = b;
  }
  stream_put(XP_CPU_LDV, &record, slice);
  memory_reset(d);
}
