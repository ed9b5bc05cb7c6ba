/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#include "shelf.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

enum { UNIT = 8 };

UChar *guest_code(const record *r) { return (UChar *)&r->counted[r->n_counted]; }

UChar *host_code(const record *r) { return guest_code(r) + r->guest_bytes; }

static SizeT size_of(const record *r) {
  SizeT end = (SizeT)(host_code(r) + r->host_bytes - (const UChar *)r);
  return VG_ROUNDUP(end, UNIT);
}

static UInt crc_of(const record *r) {
  return xp_crc32c((const UChar *)r + sizeof r->crc, size_of(r) - sizeof r->crc);
}

void record_seal(record *r) { r->crc = crc_of(r); }

static SizeT slot_of(Addr address, SizeT room) {
  return (SizeT)(address * 0x9e3779b97f4a7c15ull >> 32) & (room - 1);
}

/* NULL: not a whole record. Whoever wrote the file, nothing outside of it is read. */
static const record *record_at(const shelf *s, SizeT at) {
  const record *r = (const record *)(s->heap + at);
  if (at > s->size || s->size - at < sizeof *r || (SizeT)r->units * UNIT > s->size - at)
    return NULL;
  return size_of(r) == (SizeT)r->units * UNIT ? r : NULL;
}

/* The address's slot in the table: an empty one if there is no such record. */
static UInt *slot_for(const shelf *s, Addr address) {
  SizeT slot = slot_of(address, s->table_room);
  for (SizeT tried = 0; tried < s->table_room; tried++) {
    UInt *entry = &s->table[(slot + tried) & (s->table_room - 1)];
    const record *r = *entry ? record_at(s, (SizeT)(*entry - 1) * UNIT) : NULL;
    if (!*entry || (r && r->address == address)) return entry;
  }
  return NULL;
}

const record *shelf_find(const shelf *s, Addr address) {
  const UInt *entry = s->table_room ? slot_for(s, address) : NULL;
  const record *r = entry && *entry ? record_at(s, (SizeT)(*entry - 1) * UNIT) : NULL;
  return r && r->crc == crc_of(r) ? r : NULL;
}

static void enter(shelf *s, SizeT at) {
  UInt *entry = slot_for(s, ((const record *)(s->heap + at))->address);
  if (!*entry) s->n++;
  *entry = (UInt)(at / UNIT) + 1;
}

static void make_room(shelf *s) {
  if (2 * ((SizeT)s->n + 1) <= s->table_room) return;
  shelf old = *s;
  s->table_room = old.table_room ? 2 * old.table_room : 1024;
  s->table = VG_(calloc)("xpuprof.shelf", s->table_room, sizeof *s->table);
  s->n = 0;
  for (SizeT slot = 0; slot < old.table_room; slot++)
    if (old.table[slot]) enter(s, (SizeT)(old.table[slot] - 1) * UNIT);
  VG_(free)(old.table);
}

record *shelf_add(shelf *s, const record *r) {
  SizeT at = s->size, size = size_of(r);
  make_room(s);
  s->heap = grown(s->heap, &s->heap_room, at + size, 1);
  record *copy = (record *)(s->heap + at);
  VG_(memset)(copy, 0, size);
  *copy = *r;
  copy->units = (UInt)(size / UNIT);
  s->size += size;
  enter(s, at);
  return copy;
}

void shelf_add_all(shelf *s, const shelf *other) {
  for (SizeT slot = 0; slot < other->table_room; slot++) {
    const UInt entry = other->table[slot];
    const record *r = entry ? record_at(other, (SizeT)(entry - 1) * UNIT) : NULL;
    if (!r || r->crc != crc_of(r) || shelf_find(s, r->address)) continue;
    VG_(memcpy)(shelf_add(s, r), r, size_of(r));
  }
}

void shelf_free(shelf *s) {
  VG_(free)(s->heap);
  VG_(free)(s->table);
  *s = (shelf){0};
}
