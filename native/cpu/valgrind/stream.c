/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* cpu.xpt, written by the common writer through Valgrind's own calls. The stream is opened at the
 * process's first cut (or at the end of the root process), so that processes without device work,
 * and the images of a process that only execs another, leave nothing behind. Records that come
 * earlier (vectors of threads that ended) wait in memory. */
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "tool.h"
#include "xpuprof/boundary.h"
#include "xpuprof/part.h"

/* Of Valgrind's core: mappings that its address-space manager knows of. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern SysRes VG_(am_mmap_anon_float_valgrind)(SizeT length);

static void *os_map(int fd, uint64_t size) {
  SysRes result =
      VG_(am_shared_mmap_file_float_valgrind)(size, VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
  return sr_isError(result) ? NULL : (void *)sr_Res(result);
}

static void os_unmap(void *address, uint64_t size) { VG_(am_munmap_valgrind)((Addr)address, size); }

/* The address-space manager chooses the place, and hears that the old one is empty. */
static void *os_move(void *address, uint64_t size, uint64_t new_size) {
  enum { MAY_MOVE = 1, FIXED = 2 };
  SysRes place = VG_(am_mmap_anon_float_valgrind)(new_size);
  if (sr_isError(place)) return NULL;
  long to = (long)sr_Res(place);
  long at = xp_system_call6(__NR_mremap, (long)address, (long)size, (long)new_size,
                            MAY_MOVE | FIXED, to, 0);
  os_unmap(at == to ? address : (void *)to, at == to ? size : new_size);
  return at == to ? (void *)at : NULL;
}

static const xp_os valgrind_os = {os_map, os_move, os_unmap};

static xp_writer stream;
static xp_place place;
static Bool tried; /* to open; it is done once a process */

/* ---- records that wait for the stream -------------------------------------------------------- */

typedef struct waiting_record {
  struct waiting_record *next;
  ULong slice;
  SizeT size;
  UChar tag;
  UChar body[];
} waiting_record;

static waiting_record *waiting, **waiting_end = &waiting;

static void wait(UChar tag, const xp_body *record, ULong slice) {
  waiting_record *w = VG_(malloc)("xpuprof.waiting", sizeof *w + record->size);
  *w = (waiting_record){NULL, slice, record->size, tag};
  VG_(memcpy)(w->body, record->data, record->size);
  *waiting_end = w;
  waiting_end = &w->next;
}

static void drain(Bool write) {
  while (waiting) {
    waiting_record *w = waiting;
    waiting = w->next;
    xp_body record = {w->body, w->size, w->size, 0};
    if (write) xp_writer_put(&stream, w->tag, &record, w->slice);
    VG_(free)(w);
  }
  waiting_end = &waiting;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The launcher has Valgrind log to this file of the execution folder. */
void log_drop_empty(void) {
  struct vg_stat file;
  if (!options.directory) return;
  HChar *path = VG_(malloc)("xpuprof.path", VG_(strlen)(options.directory) + 64);
  VG_(sprintf)(path, "%s/valgrind-%d.log", options.directory, VG_(getpid)());
  if (!sr_isError(VG_(stat)(path, &file)) && file.size == 0) VG_(unlink)(path);
  VG_(free)(path);
}

static void put_meta(const HChar *key, const HChar *value) {
  xp_body record = stream_body(VG_(strlen)(key) + VG_(strlen)(value) + 2 * XP_VARINT_MAX);
  xp_put_str(&record, key);
  xp_put_str(&record, value);
  xp_writer_put(&stream, XP_CPU_META, &record, XP_NO_SLICE);
}

static void find_place(void) {
  place = (xp_place){options.directory, xp_rank(VG_(getenv)), VG_(getenv)(XPU_ENV_FAILURES)};
}

void stream_missing(const HChar *reason) {
  HChar line[256];
  find_place();
  VG_(snprintf)(line, sizeof line, "its CPU work: it executed %s, which runs natively", reason);
  xp_place_failure(&place, line);
}

void stream_open(void) {
  HChar digits[16];
  if (tried || !options.directory) return;
  tried = True;
  find_place();
  xp_writer_open(&stream, &valgrind_os, &place, XP_STREAM_CPU);
  VG_(sprintf)(digits, "%d", VG_(getpid)());
  put_meta("pid", digits);
  if (place.rank) put_meta("rank", place.rank);
  put_meta("engine", "valgrind");
  put_meta("engine_version", XPUPROF_VERSION "+valgrind-" VALGRIND_VERSION);
  put_meta("hidden_isa", fma_was_hidden ? "avx2 bmi1 bmi2 erms fma lzcnt movbe" : "");
  put_meta("filters", option_filters());
  emit_known();
  drain(True);
}

Bool stream_is_open(void) { return stream.is_open; }

void stream_put(UChar tag, const xp_body *record, ULong slice) {
  tl_assert(!record->overflow);
  if (stream_is_open())
    xp_writer_put(&stream, tag, record, slice);
  else if (!tried && options.directory)
    wait(tag, record, slice);
}

void stream_close(void) { xp_writer_close(&stream); }

void stream_forget(void) {
  xp_writer_abandon(&stream);
  drain(False);
  tried = False;
}

void stream_give_up(const HChar *reason) {
  stream_open();
  xp_writer_fail(&stream, reason);
}

xp_body stream_body(SizeT room) {
  static UChar *scratch;
  static SizeT scratch_room;
  xp_body record;
  if (room > scratch_room) {
    scratch_room = 2 * room;
    scratch = VG_(realloc)("xpuprof.record", scratch, scratch_room);
  }
  xp_body_init(&record, scratch, scratch_room);
  return record;
}
