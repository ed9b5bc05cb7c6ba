/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Valgrind's scheduler initializes the records of all threads that there may be (--max-threads), 7
 * KiB and two system calls each, at the start and in each child of a fork: 17 MB and milliseconds.
 * Here it sees as many as there have been threads, and one more that is empty; when a thread takes
 * that one, the next is made. */
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "tool.h"

struct ThreadState;
extern struct ThreadState *VG_(threads);
extern UInt VG_N_THREADS;

enum { FIRST = 3 }; /* none, the first thread, and an empty one */

static SizeT record_size;
static UInt initialized = FIRST;

/* Where the records come from; fresh memory, so zeros. */
extern void *__real_vgPlain_arena_memalign(UInt, const HChar *, SizeT, SizeT);
extern void *__wrap_vgPlain_arena_memalign(UInt, const HChar *, SizeT, SizeT);

void *__wrap_vgPlain_arena_memalign(UInt arena, const HChar *what, SizeT align, SizeT size) {
  if (VG_(strcmp)(what, "init_Threads") == 0) record_size = size / VG_N_THREADS;
  return __real_vgPlain_arena_memalign(arena, what, align, size);
}

static UInt narrow(void) {
  UInt all = VG_N_THREADS;
  VG_N_THREADS = initialized;
  return all;
}

extern ThreadId __real_vgPlain_scheduler_init_phase1(void);
extern ThreadId __wrap_vgPlain_scheduler_init_phase1(void);

ThreadId __wrap_vgPlain_scheduler_init_phase1(void) {
  tl_assert(record_size);
  UInt all = narrow();
  ThreadId first = __real_vgPlain_scheduler_init_phase1();
  VG_N_THREADS = all;
  return first;
}

extern void __real_vgPlain_do_atfork_child(ThreadId);
extern void __wrap_vgPlain_do_atfork_child(ThreadId);

void __wrap_vgPlain_do_atfork_child(ThreadId forked) {
  UInt all = narrow();
  __real_vgPlain_do_atfork_child(forked);
  VG_N_THREADS = all;
}

/* Record 0 is no thread's, so it is as the scheduler initialized it. A record begins with its
 * number. */
static void initialize_next(void) {
  UChar *records = (UChar *)VG_(threads), *next = records + initialized * record_size;
  VG_(memcpy)(next, records, record_size);
  *(ThreadId *)next = initialized++;
}

extern ThreadId __real_vgPlain_alloc_ThreadState(void);
extern ThreadId __wrap_vgPlain_alloc_ThreadState(void);

/* It gives the first empty record. */
ThreadId __wrap_vgPlain_alloc_ThreadState(void) {
  ThreadId taken = __real_vgPlain_alloc_ThreadState();
  if (taken + 1 == initialized && initialized < VG_N_THREADS) initialize_next();
  return taken;
}
