/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Translations, found by the guest's address; the same bytes lie in a file. */
#ifndef XPUPROF_SHELF_H
#define XPUPROF_SHELF_H

#include "pub_tool_basics.h"

/* A basic block that counts. The displacements of its counter and of its group's mark stand in the
 * host's code at these positions; without a mark the block before it has marked the group. */
typedef struct counted_block {
  UShort start, bytes, instructions; /* `start`: from the superblock's address */
  UShort counter_position, mark_position;
} counted_block;

/* One superblock. The counted blocks follow, then the guest's bytes, then the host's. */
typedef struct record {
  UInt crc;   /* of all that follows */
  UInt units; /* size of the record */
  Addr address;
  UShort guest_bytes, host_bytes, instructions, n_counted;
  counted_block counted[];
} record;

UChar *guest_code(const record *r);
UChar *host_code(const record *r);
void record_seal(record *r);
/* Whoever wrote it: its `size` bytes are a record as it was sealed. */
Bool record_is_whole(const record *r, SizeT size);

typedef struct slot {
  UInt low;  /* half of the record's address */
  UInt unit; /* the record's in the heap + 1; 0: the slot is empty */
} slot;

/* Zeros start one. */
typedef struct shelf {
  UChar *heap; /* the records */
  SizeT size, heap_room;
  slot *table; /* open addressing */
  SizeT table_room;
  UInt n;
} shelf;

const record *shelf_find(const shelf *s, Addr address); /* or NULL */
/* A copy of `r`, whose sizes are set; it replaces one of the same address. */
record *shelf_add(shelf *s, const record *r);
/* Only in the table: `r` is, or will be, at `at` in the heap. */
void shelf_enter(shelf *s, const record *r, SizeT at);
/* The record at `*at` of the heap, replaced or not, in the order in which they were added. NULL:
 * there are no more. */
const record *shelf_next(const shelf *s, SizeT *at);
SizeT record_size(const record *r); /* with all that follows it */

#endif
