/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* A file of translations that earlier runs kept. It is mapped, so that a process has in memory what
 * it uses of a library's translations, not what any program ever executed of it. Whatever happens
 * to the file, records are whole, or there are none. */
#ifndef XPUPROF_KEPT_H
#define XPUPROF_KEPT_H

#include "shelf.h"

/* The heap follows, then the table. */
typedef struct kept_head {
  HChar magic[8];
  ULong key;              /* what the records depend on, beside the code */
  ULong size, table_room; /* bytes of the heap, slots of the table */
} kept_head;

#define KEPT_MAGIC "xpuvex3"

typedef struct kept {
  UChar *file; /* NULL: none */
  SizeT file_size;
  UInt taken; /* records, since pages were released */
  shelf shelf;
} kept;

void kept_map(kept *k, Int fd, SizeT size, ULong key);
/* Copies, which the next call replaces. */
const record *kept_find(kept *k, Addr address); /* or NULL */
/* As shelf_next(), without those that were replaced. */
const record *kept_next(kept *k, SizeT *at);
/* Releases the pages that were read. */
void kept_release(kept *k);

#endif
