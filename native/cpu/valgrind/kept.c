/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#include "kept.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcsetjmp.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

extern SysRes VG_(am_mmap_file_float_valgrind)(SizeT, UInt, Int, Off64T);
typedef void (*fault_catcher)(Int, Addr);
extern fault_catcher VG_(set_fault_catcher)(fault_catcher);

/* ---- a copy of one record -------------------------------------------------------------------- */

enum { MAX_RECORD = 160 << 10 }; /* two codes of at most 64 KiB, and the rest */
enum { ENOUGH = 64 };            /* records to release pages after */

static union {
  record record;
  UChar bytes[MAX_RECORD];
} copy;

/* A record is used once, so that what has been read need not stay in memory. The kernel maps 64 KiB
 * around each page that is touched. */
static void release(kept *k) {
  enum { DONT_NEED = 4 };
  k->taken = 0;
  xp_system_call(__NR_madvise, (Word)k->file, (Word)k->file_size, DONT_NEED, 0);
}

void kept_release(kept *k) {
  if (k->taken) release(k);
}

/* Others may write to the file meanwhile: only the copy is checked. */
static Bool take(kept *k, const record *r) {
  if (!r) return False;
  SizeT size = record_size(r), rest = (SizeT)(k->shelf.heap + k->shelf.size - (const UChar *)r);
  if (size < sizeof *r || size > sizeof copy || size > rest) return False;
  VG_(memcpy)(&copy, r, size);
  if (++k->taken == ENOUGH) release(k);
  return record_is_whole(&copy.record, size);
}

/* ---- reading --------------------------------------------------------------------------------- */

static VG_MINIMAL_JMP_BUF(back);
static const kept *being_read;
static vki_sigset_t blocked; /* signals, while the tool works */

/* The kernel's answer to a read beyond the end of a file that somebody has shortened. */
static void caught(Int signal, Addr at) {
  if (signal == VKI_SIGBUS && at - (Addr)being_read->file < being_read->file_size)
    VG_MINIMAL_LONGJMP(back);
}

static void unmap(kept *k) {
  VG_(am_munmap_valgrind)((Addr)k->file, k->file_size);
  *k = (kept){0};
}

/* A step of reading: its result is in `copy`. */
typedef Bool step(kept *, SizeT *);

static Bool try(kept *k, step *read, SizeT *at) {
  if (VG_MINIMAL_SETJMP(back) == 0) return read(k, at);
  VG_(sigprocmask)(VKI_SIG_SETMASK, &blocked, NULL); /* the signal's handler was not left */
  unmap(k);
  return False;
}

static const record *guarded(kept *k, step *read, SizeT *at) {
  if (!k->file) return NULL;
  being_read = k;
  VG_(set_fault_catcher)(caught);
  Bool done = try(k, read, at);
  VG_(set_fault_catcher)(NULL);
  return done ? &copy.record : NULL;
}

static Bool find(kept *k, SizeT *address) { return take(k, shelf_find(&k->shelf, *address)); }

const record *kept_find(kept *k, Addr address) { return guarded(k, find, &address); }

static Bool next(kept *k, SizeT *at) {
  const record *r;
  while ((r = shelf_next(&k->shelf, at)))
    if (take(k, r) && shelf_find(&k->shelf, copy.record.address) == r) break;
  return r != NULL;
}

const record *kept_next(kept *k, SizeT *at) { return guarded(k, next, at); }

static Bool fits(const kept_head *h, SizeT size, ULong key) {
  SizeT rest = size - sizeof *h;
  return size > sizeof *h && VG_(memcmp)(h->magic, KEPT_MAGIC, sizeof h->magic) == 0 &&
         h->key == key && h->size < rest && h->size % sizeof(ULong) == 0 && h->table_room &&
         !(h->table_room & (h->table_room - 1)) && h->table_room <= rest / sizeof(slot) &&
         h->size + h->table_room * sizeof(slot) == rest;
}

void kept_map(kept *k, Int fd, SizeT size, ULong key) {
  kept_head h;
  if (VG_(read)(fd, &h, sizeof h) != sizeof h || !fits(&h, size, key)) return;
  SysRes place = VG_(am_mmap_file_float_valgrind)(size, VKI_PROT_READ, fd, 0);
  if (sr_isError(place)) return;
  *k = (kept){.file = (UChar *)sr_Res(place), .file_size = size};
  k->shelf = (shelf){.heap = k->file + sizeof h, .size = h.size, .table_room = h.table_room};
  k->shelf.table = (slot *)(k->shelf.heap + h.size);
  VG_(sigprocmask)(VKI_SIG_SETMASK, NULL, &blocked);
}
