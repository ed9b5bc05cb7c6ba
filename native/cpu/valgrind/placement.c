/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Where libraries are mapped. Kept translations hold addresses, so a library lies at the same one
 * in every program where that is possible: one that its first page tells. This is so in every run,
 * since the dynamic loader's path depends on addresses. */
#include <elf.h>

#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_vki.h"
#include "tool.h"
#include "translations.h"

/* Libraries of a size have a region of their own, so that a hundred small ones leave room for
 * LLVM. All regions lie below 2 GiB, whose addresses VEX's code holds in fewer bytes, and above the
 * tool's own, where programs ask for fixed addresses less often than below. */
typedef struct region {
  SizeT largest; /* library */
  Addr start, end;
} region;

static const SizeT MB = 1 << 20;
static const region REGIONS[] = {{4 * MB, 0x5a000000, 0x62000000},
                                 {32 * MB, 0x62000000, 0x6d000000},
                                 {303 * MB, 0x6d000000, 0x7fff0000}};
/* Of what is larger, or found its own region full; not of small ones. */
static const region SPARE = {896 * MB, 0x20000000, 0x58000000};
enum { PAGE = 4096, STEP = 1 << 16, MAP_32BIT = 0x40 };

/* Declared in Valgrind's core. */
typedef struct map_request {
  enum { FIXED, HINT } kind;
  Addr start, size;
} map_request;
extern Addr VG_(am_get_advisory)(const map_request *, Bool for_client, Bool *ok);
extern SysRes VG_(pread)(Int, void *, Int, OffT);

/* A reservation, into which a stack or the heap may grow, would be granted, too. */
Bool is_free(Addr start, SizeT size) {
  Bool ok;
  const map_request request = {HINT, start, size};
  return !VG_(am_find_nsegment)(start) && !VG_(am_find_nsegment)(start + size - 1) &&
         VG_(am_get_advisory)(&request, True, &ok) == start && ok;
}

static Bool is_regular(Int fd) {
  struct vg_stat file;
  return VG_(fstat)(fd, &file) == 0 && VKI_S_ISREG(file.mode);
}

/* One of the places that the hash tells, or 0. Large libraries leave large gaps. */
static Addr place_by_hash(const region *r, SizeT size, ULong hash) {
  enum { TRIES = 8 };
  SizeT step = STEP;
  while (step < size / 8) step *= 2;
  const SizeT places = (r->end - r->start - size) / step;
  for (UInt i = 0; places && i < TRIES; i++, hash *= 0x9e3779b97f4a7c15ull) {
    Addr start = r->start + (Addr)(hash >> 20) % places * step;
    if (is_free(start, size)) return start;
  }
  return 0;
}

static Addr first_place(const region *r, SizeT size) {
  for (Addr start = r->start; start + size <= r->end; start += MB)
    if (is_free(start, size)) return start;
  return 0;
}

static Addr place_of(SizeT size, ULong hash) {
  const region *r = REGIONS;
  if (size > SPARE.largest) return 0;
  while (size > r->largest)
    if (++r == REGIONS + sizeof REGIONS / sizeof *REGIONS) return first_place(&SPARE, size);
  Addr start = place_by_hash(r, size, hash);
  if (start || r == REGIONS) return start;
  start = first_place(r, size);
  return start ? start : first_place(&SPARE, size);
}

/* 0: anywhere. */
static Addr home_of(Int fd, SizeT size) {
  UChar page[PAGE];
  size = VG_PGROUNDUP(size);
  if (!is_regular(fd)) return 0;
  SysRes got = VG_(pread)(fd, page, PAGE, 0);
  if (sr_isError(got) || sr_Res(got) < sizeof(Elf64_Ehdr) ||
      VG_(memcmp)(page, ELFMAG, SELFMAG) != 0)
    return 0;
  return place_of(size, hash_bytes(page, sr_Res(got), HASH_SEED));
}

/* The dynamic loader first maps a library as a whole, from its start and anywhere. */
static Bool may_be_library(Addr start, UWord flags, Int fd, Off64T offset) {
  const UWord elsewhere = VKI_MAP_FIXED | VKI_MAP_ANONYMOUS | VKI_MAP_SHARED | MAP_32BIT;
  return start == 0 && offset == 0 && fd >= 0 && !(flags & elsewhere) && !sandbox_is_on();
}

typedef SysRes map_call(ThreadId, UWord, UWord, UWord, UWord, UWord, Off64T);
extern map_call __real_vgModuleLocal_generic_PRE_sys_mmap,
    __wrap_vgModuleLocal_generic_PRE_sys_mmap;

SysRes __wrap_vgModuleLocal_generic_PRE_sys_mmap(ThreadId tid, UWord start, UWord size,
                                                 UWord access, UWord flags, UWord fd,
                                                 Off64T offset) {
  if (may_be_library(start, flags, (Int)fd, offset)) start = home_of((Int)fd, size);
  return __real_vgModuleLocal_generic_PRE_sys_mmap(tid, start, size, access, flags, fd, offset);
}
