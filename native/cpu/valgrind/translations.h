/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Translations kept between runs (docs/valgrind.md). */
#ifndef XPUPROF_TRANSLATIONS_H
#define XPUPROF_TRANSLATIONS_H

#include "kept.h"

/* Where a thread's counters lie, seen from the address in its shadow word. With it each
 * displacement takes four bytes, and is hardly ever another number of the same code. */
#define COUNTERS_AT 0x5a000000ull

UInt counter_displacement(UInt block);
UInt mark_displacement(UInt block);

/* The superblock being translated counts this block, and marks its group. */
void translation_counts(UInt block, Bool marks, Addr start, UInt bytes, UInt instructions);
/* It holds something of this run, and is of no use to others. */
void translation_is_of_this_run(void);

/* The program forbids itself system calls: those for our files might end it. Before each call. */
void sandbox_watch(UInt call, const UWord *arguments);
Bool sandbox_is_on(void);

/* ---- translation_files.c: one file for each image, with and without counting ------------------
 */

typedef struct store {
  Bool tried;  /* to read its file */
  ULong inode; /* of that file; 0: there was none */
  kept kept;
  shelf fresh;
} store;

/* Where translations of the code are kept; NULL: they are not. `features`: of the processor. */
store *store_at(Addr code, UInt features);
Bool store_has_room(void); /* for new ones */
void stores_release(void); /* what was read since the last time need not stay in memory */
void stores_save(void);    /* at the end of the process */
void stores_forked(void);  /* in a forked child */

#endif
