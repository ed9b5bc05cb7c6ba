/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Counters of threads. A thread that counts owns one reservation:
 *
 *   u64 counters[MAX_BLOCKS]   executions of the block, never reset
 *   u8 dirty[MAX_BLOCKS/GROUP] set by the instrumented code beside the counter
 *   u64 seen[MAX_BLOCKS]       the counters at the last flush
 *
 * The instrumented code finds the counters through a word of the thread's shadow registers; while a
 * thread does not count, the word points to a reservation that is never read. A flush writes the
 * difference between counters and seen for dirty groups only. The whole run's total is computed
 * from the counters themselves, over all blocks, independently of dirty marks, flushes and cuts,
 * and can be checked against their sum. */
#include "native_kernels.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "tool.h"
#include "translations.h"

extern Int VG_(gettid)(void); /* of Valgrind's core */

typedef struct counters {
  ULong count[MAX_BLOCKS];
  UChar dirty[MAX_BLOCKS / GROUP];
  ULong seen[MAX_BLOCKS];
} counters;

typedef struct thread {
  counters *counters;   /* NULL: never counts (the device runtime's, or filtered out) */
  distances *distances; /* with --memory */
  UInt number;          /* among counting threads */
  Bool runtime;         /* belongs to the device runtime */
  Bool ran;             /* may have counted since the last flush */
  UInt depth;           /* of nested calls into the device runtime and back */
  uint64_t off;         /* of nesting_enter() */
} thread;

static thread *threads; /* by ThreadId */
static counters *nobody;
static ULong retired_total; /* instructions of threads that ended */
static ULong base_total;    /* instructions before a fork, not this process's */

/* Of Valgrind's 128 GiB; the rest is for the program: 8 for its main stack (main_stack.c), 32 for
 * those of 4,000 threads. */
static const SizeT MOST_RESERVED = 88ull << 30, RESERVATION = VG_PGROUNDUP(sizeof(counters));
static SizeT reserved;

static counters *map(void) {
#ifdef VALGRIND_SHADOW_ALLOC_MAY_FAIL
  const SysRes made = VG_(am_shadow_alloc)(RESERVATION);
  return sr_isError(made) ? NULL : (counters *)sr_Res(made);
#else
  return VG_(am_shadow_alloc)(RESERVATION);
#endif
}

static counters *reserve(void) {
  counters *c = reserved + RESERVATION <= MOST_RESERVED ? map() : NULL;
  if (c) reserved += RESERVATION;
  return c;
}

static void unmap(counters *c) {
  if (!c) return;
  VG_(am_munmap_valgrind)((Addr)c, RESERVATION);
  reserved -= RESERVATION;
}

void threads_init(void) {
  threads = VG_(calloc)("xpuprof.threads", VG_N_THREADS, sizeof *threads);
  nobody = reserve();
}

static Bool is_off(const thread *t) { return t->runtime || nesting_is_off(t->depth, t->off); }

Bool thread_is_off(ThreadId tid) { return is_off(&threads[tid]); }

void thread_created(ThreadId creator, ThreadId tid) {
  thread *t = &threads[tid];
  VG_(memset)(t, 0, sizeof *t);
  kernels_thread_created(tid);
  if (creator != VG_INVALID_THREADID && is_off(&threads[creator])) {
    t->runtime = True;
    return;
  }
  t->number = number_new();
  if (!option_counts_thread(t->number)) return;
  t->counters = reserve();
  if (!t->counters) stream_give_up("there is no memory for a thread's counters");
  if (options.memory) t->distances = memory_new();
}

void thread_first_instruction(ThreadId tid) {
  if (!threads[tid].runtime) number_started(threads[tid].number, VG_(gettid)());
}

/* Called before a thread runs translated code. A signal's return may have restored an older word,
 * so it is set each time. */
void thread_runs(ThreadId tid, ULong blocks_done) {
  thread *t = &threads[tid];
  (void)blocks_done;
  Bool counts = t->counters && !is_off(t) && window_is_open();
  Addr target = (Addr)(counts ? t->counters : nobody) - COUNTERS_AT;
  if (counts) t->ran = True;
  memory_switch(counts ? t->distances : NULL);
  VG_(set_shadow_regs_area)
  (tid, 1, counters_shadow_offset(), sizeof target, (const UChar *)&target);
}

void thread_enter(ThreadId tid, Bool count) {
  nesting_enter(&threads[tid].depth, &threads[tid].off, count);
}

void thread_leave(ThreadId tid) {
  if (threads[tid].depth) threads[tid].depth--;
}

/* ---- vectors --------------------------------------------------------------------------------- */

static void flush_group(counters *c, UInt first) {
  for (UInt b = first; b < first + GROUP; b++) {
    vector_add(b, c->count[b] - c->seen[b]);
    c->seen[b] = c->count[b];
  }
}

static void collect(counters *c) {
  UInt groups = ((UInt)blocks_known() + GROUP - 1) / GROUP;
  vector_begin();
  for (UInt g = 0; g < groups; g += 8) {
    ULong *marks = (ULong *)&c->dirty[g];
    if (!*marks) continue;
    for (UInt i = 0; i < 8; i++)
      if (c->dirty[g + i]) flush_group(c, (g + i) * GROUP);
    *marks = 0;
  }
}

static void flush(thread *t, ULong slice) {
  if (!t->counters || !t->ran) return;
  t->ran = False;
  collect(t->counters);
  vector_put(t->number, slice);
  if (t->distances) memory_flush(t->distances, t->number, slice);
}

void threads_flush(uint64_t slice) {
  for (ThreadId tid = 1; tid < VG_N_THREADS; tid++) flush(&threads[tid], slice);
}

/* ---- totals and ends ------------------------------------------------------------------------- */

static ULong total_of(const counters *c) {
  ULong sum = 0;
  for (UInt b = 0, n = (UInt)blocks_known(); b < n; b++)
    if (c->count[b]) sum += c->count[b] * block_instructions(b);
  return sum;
}

uint64_t threads_total(void) {
  ULong sum = retired_total - base_total;
  for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
    if (threads[tid].counters) sum += total_of(threads[tid].counters);
  return sum;
}

static void release(thread *t) {
  unmap(t->counters);
  memory_free(t->distances);
  t->counters = NULL;
  t->distances = NULL;
}

void thread_exits(ThreadId tid) {
  thread *t = &threads[tid];
  if (!t->counters) return;
  if (stream_is_open()) emit_known();
  flush(t, slice_under_way());
  retired_total += total_of(t->counters);
  release(t);
}

/* Only the forking thread survives in a forked child. Earlier counts belong to the parent. */
void threads_forked(ThreadId survivor) {
  thread *t = &threads[survivor];
  numbers_forked();
  for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
    if (tid != survivor) release(&threads[tid]);
  if (t->counters) collect(t->counters);
  if (t->distances) memory_reset(t->distances);
  retired_total = 0;
  base_total = t->counters ? total_of(t->counters) : 0;
  if (t->runtime) return;
  t->number = number_new();
  number_started(t->number, VG_(gettid)());
}
