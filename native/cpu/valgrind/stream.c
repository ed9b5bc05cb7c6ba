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
#include "tool.h"
#include "xpuprof/part.h"

/* Of Valgrind's core: moves a descriptor out of the program's range, close-on-exec. */
extern Int VG_(safe_fd)(Int oldfd);
/* Of Valgrind's core: a shared mapping that its address-space manager knows of. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);

static Word system_call4(Word number, Word a, Word b, Word c, Word d) {
  Word result;
  register Word r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

static Word system_call(Word number, Word a, Word b) { return system_call4(number, a, b, 0, 0); }

static int os_create(const char *path) {
  SysRes result = VG_(open)(path, VKI_O_RDWR | VKI_O_CREAT | VKI_O_EXCL, 0666);
  return sr_isError(result) ? -1 : VG_(safe_fd)((Int)sr_Res(result));
}

static int os_resize(int fd, uint64_t size) {
  return (int)system_call(__NR_ftruncate, fd, (Word)size);
}

static void *os_map(int fd, uint64_t offset, uint64_t size) {
  /* Room is taken now: a store into a hole of a full disk would kill the program (SIGBUS). */
  enum { NOT_SUPPORTED = 95 }; /* EOPNOTSUPP: some file systems cannot, and risk it */
  Word error;
  do error = system_call4(__NR_fallocate, fd, 0, (Word)offset, (Word)size);
  while (error == -VKI_EINTR);
  if (error < 0 && error != -NOT_SUPPORTED && error != -VKI_ENOSYS) return NULL;
  SysRes result = VG_(am_shared_mmap_file_float_valgrind)(size, VKI_PROT_READ | VKI_PROT_WRITE, fd,
                                                          (Off64T)offset);
  return sr_isError(result) ? NULL : (void *)sr_Res(result);
}

static void os_unmap(void *address, uint64_t size) { VG_(am_munmap_valgrind)((Addr)address, size); }

static void os_close(int fd) { VG_(close)(fd); }

static const xp_os valgrind_os = {os_create, os_resize, os_map, os_unmap, os_close};

static xp_writer stream = {.fd = -1};
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
    if (write) xp_writer_put(&stream, w->tag, w->body, w->size, w->slice);
    VG_(free)(w);
  }
  waiting_end = &waiting;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* struct utsname of the kernel: six fields of 65 bytes, the second is the host's name. */
static void host_name(HChar name[65]) {
  HChar fields[6 * 65];
  VG_(memset)(fields, 0, sizeof fields);
  system_call(__NR_uname, (Word)fields, 0);
  VG_(memcpy)(name, fields + 65, 65);
  name[64] = 0;
}

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
  xp_writer_put(&stream, XP_CPU_META, record.data, record.size, XP_NO_SLICE);
}

void stream_open(void) {
  HChar host[65], digits[16], part[XP_PART_NAME_MAX];
  const HChar *rank = xp_rank(VG_(getenv));
  if (tried || !options.directory) return;
  tried = True;
  host_name(host);
  xp_part_name(part, host, rank, (UInt)VG_(getpid)());
  HChar *path = VG_(malloc)("xpuprof.path", VG_(strlen)(options.directory) + sizeof part + 16);
  SizeT n = VG_(sprintf)(path, "%s/%s", options.directory, part);
  system_call(__NR_mkdir, (Word)path, 0777); /* the runtime may have made it */
  VG_(sprintf)(path + n, "/cpu.xpt");
  if (xp_writer_open(&stream, &valgrind_os, path, XP_STREAM_CPU) < 0)
    VG_(umsg)("xpuprof: cannot create %s: no CPU vectors of this process\n", path);
  VG_(free)(path);
  VG_(sprintf)(digits, "%d", VG_(getpid)());
  put_meta("pid", digits);
  if (rank) put_meta("rank", rank);
  put_meta("engine", "valgrind");
  put_meta("engine_version", XPUPROF_VERSION "+valgrind-" VALGRIND_VERSION);
  put_meta("hidden_isa", fma_was_hidden ? "avx2 bmi1 bmi2 erms fma lzcnt movbe" : "");
  put_meta("filters", option_filters());
  emit_known();
  drain(True);
}

Bool stream_is_open(void) { return stream.fd >= 0; }

void stream_put(UChar tag, const xp_body *record, ULong slice) {
  tl_assert(!record->overflow);
  if (stream_is_open())
    xp_writer_put(&stream, tag, record->data, record->size, slice);
  else if (!tried && options.directory)
    wait(tag, record, slice);
}

void stream_close(void) { xp_writer_close(&stream); }

void stream_forget(void) {
  xp_writer_abandon(&stream);
  drain(False);
  tried = False;
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
