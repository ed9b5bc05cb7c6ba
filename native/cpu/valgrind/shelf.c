/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#include "shelf.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

enum { UNIT = 8 };

UChar *guest_code(const record *r) { return (UChar *)&r->counted[r->n_counted]; }

UChar *host_code(const record *r) { return guest_code(r) + r->guest_bytes; }

/* As its other sizes tell. */
static SizeT whole_size(const record *r) {
  SizeT end = (SizeT)(host_code(r) + r->host_bytes - (const UChar *)r);
  return VG_ROUNDUP(end, UNIT);
}

SizeT record_size(const record *r) { return (SizeT)r->units * UNIT; }

static UInt crc_of(const record *r) {
  return xp_crc32c((const UChar *)r + sizeof r->crc, record_size(r) - sizeof r->crc);
}

void record_seal(record *r) { r->crc = crc_of(r); }

Bool record_is_whole(const record *r, SizeT size) {
  return record_size(r) == size && whole_size(r) == size && r->crc == crc_of(r);
}

/* Of low halves of addresses, so that the table moves to a larger one without a look at records. */
static SizeT slot_of(UInt low, SizeT room) {
  return (SizeT)(low * 0x9e3779b97f4a7c15ull >> 32) & (room - 1);
}

/* NULL: it is not within the heap. */
static const record *record_at(const shelf *s, SizeT at) {
  const record *r = (const record *)(s->heap + at);
  if (at > s->size || s->size - at < sizeof *r) return NULL;
  SizeT size = record_size(r);
  return size >= sizeof *r && size <= s->size - at ? r : NULL;
}

static const record *record_of(const shelf *s, const slot *entry) {
  return record_at(s, (SizeT)(entry->unit - 1) * UNIT);
}

/* The record's slot in the table: an empty one if there is no such record, NULL if all are full. */
static slot *slot_for(const shelf *s, Addr address) {
  SizeT first = slot_of((UInt)address, s->table_room);
  for (SizeT tried = 0; tried < s->table_room; tried++) {
    slot *entry = &s->table[(first + tried) & (s->table_room - 1)];
    if (!entry->unit) return entry;
    if (entry->low != (UInt)address) continue;
    const record *r = record_of(s, entry);
    if (r && r->address == address) return entry;
  }
  return NULL;
}

const record *shelf_find(const shelf *s, Addr address) {
  const slot *entry = s->table_room ? slot_for(s, address) : NULL;
  return entry && entry->unit ? record_of(s, entry) : NULL;
}

const record *shelf_next(const shelf *s, SizeT *at) {
  const record *r = record_at(s, *at);
  if (r) *at += record_size(r);
  return r;
}

static slot *empty_slot(const shelf *s, UInt low) {
  SizeT at = slot_of(low, s->table_room);
  while (s->table[at].unit) at = (at + 1) & (s->table_room - 1);
  return &s->table[at];
}

static void make_room(shelf *s) {
  enum { SMALLEST = 1024 };
  if (4 * ((SizeT)s->n + 1) <= 3 * s->table_room) return;
  const shelf old = *s;
  s->table_room = old.table_room ? 2 * old.table_room : SMALLEST;
  s->table = VG_(calloc)("xpuprof.shelf", s->table_room, sizeof *s->table);
  for (SizeT i = 0; i < old.table_room; i++)
    if (old.table[i].unit) *empty_slot(s, old.table[i].low) = old.table[i];
  VG_(free)(old.table);
}

static void enter(slot *entry, const record *r, SizeT at) {
  *entry = (slot){.low = (UInt)r->address, .unit = (UInt)(at / UNIT) + 1};
}

void shelf_enter(shelf *s, const record *r, SizeT at) {
  make_room(s);
  enter(empty_slot(s, (UInt)r->address), r, at);
  s->n++;
}

record *shelf_add(shelf *s, const record *r) {
  SizeT at = s->size, size = whole_size(r);
  slot *replaced = s->table_room ? slot_for(s, r->address) : NULL;
  s->heap = enlarged(s->heap, &s->heap_room, at + size, 1);
  record *copy = (record *)(s->heap + at);
  VG_(memset)(copy, 0, size);
  *copy = *r;
  copy->units = (UInt)(size / UNIT);
  s->size += size;
  if (replaced && replaced->unit)
    enter(replaced, copy, at);
  else
    shelf_enter(s, copy, at);
  return copy;
}
