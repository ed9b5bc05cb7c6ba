/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Translations in memory, found by the guest's address; the same bytes lie in a file. */
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

/* Zeros start one; one that was mapped from a file does not grow. */
typedef struct shelf {
  UChar *heap; /* the records */
  SizeT size, heap_room;
  UInt *table; /* open addressing: the record's unit in the heap + 1, or 0 */
  SizeT table_room;
  UInt n;
} shelf;

/* NULL: none, or damaged. */
const record *shelf_find(const shelf *s, Addr address);
/* A copy of `r`, whose sizes are set; it replaces one of the same address. */
record *shelf_add(shelf *s, const record *r);
void record_seal(record *r);
/* Adds the other's records for which `s` has none of the same address. */
void shelf_add_all(shelf *s, const shelf *other);
void shelf_free(shelf *s);

#endif
