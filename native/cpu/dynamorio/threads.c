/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of threads. Every thread owns two reservations:
 *
 *   u64 count[CELLS]      executions of the block or path, never reset
 *   u8 dirty[CELLS/GROUP] set by the instrumented code beside the counter
 *   u64 seen[CELLS]       the counters at the last flush
 *
 * and a second with the first two members only, which is never read: there the instrumented code
 * counts while the thread must not count. The instrumented code finds the active one through a word
 * of thread-local storage, so threads share nothing while they run.
 *
 * A flush reads while the owner keeps writing. It clears a group's mark before it reads the group's
 * counters, and the owner marks after counting: a count that the flush misses is marked again and
 * belongs to the next slice. The run's total is computed from the counters themselves, over all
 * blocks, independently of marks, flushes and cuts, and can be checked against their sum. */
#include <string.h>

#include "client.h"

typedef struct counters {
  uint64_t count[CELLS];
  uint8_t dirty[CELLS / GROUP];
  uint64_t seen[CELLS];
} counters;

_Static_assert(offsetof(counters, dirty) == MARKS_OFFSET, "what the instrumented code marks");

enum { WASTE_SIZE = offsetof(counters, seen) };

typedef struct thread {
  struct thread *next;
  uint64_t **base;    /* the word of its thread-local storage */
  counters *counters; /* NULL: never counts (the device runtime's, filtered out, a child) */
  void *waste;
  uint32_t number;           /* among counting threads */
  bool starts_up;            /* does not count yet */
  bool runtime;              /* belongs to the device runtime */
  bool child;                /* of its own process, whose memory it shares */
  bool ends;                 /* by its own call */
  uint64_t ignores, handles; /* if it is a child */
  uint64_t blocks;
  uint64_t held; /* blocked in Linux during a call */
  suspension suspension;
  uint32_t depth; /* of nested calls into the device runtime and back */
  uint64_t off;   /* of nesting_enter() */
  void *trace;    /* the trace being built, and its number of blocks */
  unsigned trace_blocks;
  kernel_call *kernel;
} thread;

/* A thread is numbered by its creator, so that numbers follow the order of creation, and found by
 * its first stack pointer when it starts. */
typedef struct birth {
  struct birth *next;
  uint64_t stack;
  uint32_t number;
  bool child, runtime;
  uint64_t blocks; /* its creator's */
} birth;

static thread *threads;
static birth *births;
static uint64_t process_ignores, process_handles;
static void *shared_waste;     /* of threads for whose own there was no memory */
static uint64_t retired_total; /* instructions of threads that ended */
static uint64_t base_total;    /* instructions before a fork, not this process's */
static reg_id_t tls_segment;
static uint32_t tls_offset; /* of two words: the counters, and a saved one */

/* Executions through paths in the current flush, and the groups of blocks with such executions. */
static uint64_t *by_path; /* [MAX_BLOCKS] */
static uint8_t has_path[MAX_BLOCKS / GROUP];

bool threads_init(void) {
  by_path = reserve(MAX_BLOCKS * sizeof *by_path);
  shared_waste = reserve(WASTE_SIZE);
  return by_path && shared_waste && dr_raw_tls_calloc(&tls_segment, &tls_offset, 2, 0);
}

static bool is_off(const thread *t) { return t->runtime || nesting_is_off(t->depth, t->off); }

bool threads_are_several(void) { return threads && threads->next; }

static thread *current(void *drcontext) { return dr_get_tls_field(drcontext); }

bool thread_is_child(void *drcontext) {
  const thread *t = current(drcontext);
  return t && t->child;
}

uint64_t *thread_ignores(void *drcontext) {
  return thread_is_child(drcontext) ? &current(drcontext)->ignores : &process_ignores;
}

uint64_t *thread_handles(void *drcontext) {
  return thread_is_child(drcontext) ? &current(drcontext)->handles : &process_handles;
}

uint64_t *thread_blocks(void *drcontext) {
  thread *t = current(drcontext);
  return t && !t->child ? &t->blocks : NULL;
}

uint64_t *thread_mask(void *drcontext) {
  thread *t = current(drcontext);
  return t ? &t->blocks : NULL;
}

uint64_t thread_refuses(void *drcontext) {
  const thread *t = current(drcontext);
  return *thread_ignores(drcontext) | (t ? t->blocks : 0);
}

uint64_t *thread_held(void *drcontext) {
  thread *t = current(drcontext);
  return t ? &t->held : NULL;
}

suspension *thread_suspension(void *drcontext) {
  thread *t = current(drcontext);
  return t ? &t->suspension : NULL;
}

bool thread_is_off(void *drcontext) {
  const thread *t = current(drcontext);
  return t && is_off(t);
}

unsigned thread_extends_trace(void *drcontext, void *tag) {
  thread *t = current(drcontext);
  if (t->trace != tag) {
    t->trace = tag;
    t->trace_blocks = 0;
  }
  return ++t->trace_blocks;
}

static void set_target(thread *t) {
  *t->base = t->counters && !is_off(t) && !t->starts_up && window_is_open() ? t->counters->count
                                                                            : t->waste;
}

void threads_turned(void) {
  for (thread *t = threads; t; t = t->next) set_target(t);
}

void thread_enters(bool count) {
  thread *t = current(dr_get_current_drcontext());
  lock(); /* the window may turn */
  nesting_enter(&t->depth, &t->off, count);
  set_target(t);
  unlock();
}

void thread_nests(uint32_t depth, uint64_t off) {
  thread *t = current(dr_get_current_drcontext());
  lock();
  t->depth = depth;
  t->off = off;
  set_target(t);
  unlock();
}

void threads_count_start_up(void) {
  lock();
  for (thread *t = threads; t; t = t->next) {
    t->starts_up = false;
    set_target(t);
  }
  unlock();
}

void thread_leaves(void) {
  thread *t = current(dr_get_current_drcontext());
  lock();
  if (t->depth) t->depth--;
  set_target(t);
  unlock();
}

/* ---- what the instrumented code needs -------------------------------------------------------- */

void thread_insert_base(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t to) {
  insert_segment_move(drcontext, code, where, false, to, tls_segment, tls_offset);
}

int thread_base_at(void) { return (int)tls_offset; }

void thread_insert_keep(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t from) {
  dr_insert_write_raw_tls(drcontext, code, where, tls_segment, tls_offset + 8, from);
}

void thread_insert_compare_kept(void *drcontext, instrlist_t *code, instr_t *where) {
  opnd_t kept = opnd_create_far_base_disp(tls_segment, DR_REG_NULL, DR_REG_NULL, 0,
                                          (int)tls_offset + 8, OPSZ_8);
  instrlist_meta_preinsert(code, where, INSTR_CREATE_cmp(drcontext, kept, OPND_CREATE_INT8(0)));
}

void thread_insert_kept(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t to) {
  dr_insert_read_raw_tls(drcontext, code, where, tls_segment, tls_offset + 8, to);
}

static uint64_t **words(void) {
  return (uint64_t **)((byte *)dr_get_dr_segment_base(tls_segment) + tls_offset);
}

void thread_count(uint32_t cell, uint64_t executions) {
  uint64_t *counters = words()[0];
  counters[cell] += executions;
  ((uint8_t *)counters)[MARKS_OFFSET + cell / GROUP] = 1;
}

void thread_keep(uint64_t value) { words()[1] = (uint64_t *)value; }

uint64_t thread_kept(void) { return (uint64_t)words()[1]; }

/* ---- life ------------------------------------------------------------------------------------ */

void thread_announced(uint64_t stack, bool child, bool runtime) {
  birth *b = dr_global_alloc(sizeof *b);
  const thread *creator = current(dr_get_current_drcontext());
  const uint64_t blocked = creator ? creator->blocks : 0;
  lock();
  *b = (birth){births, stack, child || runtime ? 0 : number_new(), child, runtime, blocked};
  births = b;
  unlock();
}

static bool take_birth(uint64_t stack, birth *result) {
  for (birth **at = &births; *at; at = &(*at)->next)
    if ((*at)->stack == stack) {
      birth *b = *at;
      *result = *b;
      *at = b->next;
      dr_global_free(b, sizeof *b);
      return true;
    }
  return false;
}

void thread_not_created(uint64_t stack) {
  birth b;
  lock();
  if (take_birth(stack, &b) && !b.child && !b.runtime) number_not_used(b.number);
  unlock();
}

static bool only_births_remain(void) {
  bool expected = false, remain = false;
  for (const birth *b = births; b; b = b->next) expected |= !b->child;
  for (const thread *t = threads; t; t = t->next) remain |= !t->ends;
  return expected && !remain;
}

/* DynamoRIO ends the process with the last thread that it knows, and knows one when it starts. */
void threads_await_births(void *drcontext) {
  enum { MOST = 1000 }; /* ms */
  thread *t = current(drcontext);
  bool waits = t != NULL;
  for (int i = 0; i < MOST && waits; i++) {
    if (i) dr_sleep(1);
    lock();
    t->ends = true;
    waits = only_births_remain();
    unlock();
  }
}

uint64_t stack_pointer(void *drcontext) {
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_CONTROL};
  return dr_get_mcontext(drcontext, &context) ? context.xsp : 0;
}

void thread_starts(void *drcontext) {
  birth b = {0};
  thread *t = dr_global_alloc(sizeof *t);
  lock();
  *t = (thread){.next = threads,
                .base = words(),
                .kernel = kernels_thread_starts(drcontext),
                .starts_up = start_up_thread_starts(drcontext)};
  if (take_birth(stack_pointer(drcontext), &b)) {
    t->runtime = b.runtime;
    t->child = b.child;
    t->ignores = process_ignores;
    t->handles = process_handles;
    t->blocks = b.blocks;
    t->number = b.number;
  } else {
    t->number = number_new();
    if (!threads) t->blocks = waited_at_start();
  }
  t->waste = reserve(WASTE_SIZE);
  if (!t->waste) t->waste = shared_waste;
  if (!t->runtime && !b.child) {
    number_started(t->number, (long)dr_get_thread_id(drcontext));
    if (option_counts_thread(t->number)) t->counters = reserve(sizeof *t->counters);
    if (option_counts_thread(t->number) && !t->counters)
      stream_give_up("there is no memory for a thread's counters");
  }
  threads = t;
  dr_set_tls_field(drcontext, t);
  set_target(t);
  unlock();
}

bool thread_restores(void *drcontext, bool restore_memory, dr_restore_state_info_t *state) {
  const thread *t = current(drcontext);
  start_up_restores(drcontext, state);
  return !t || kernel_restores(t->kernel, restore_memory, state);
}

/* ---- vectors --------------------------------------------------------------------------------- */

static uint64_t grown_by(counters *c, uint32_t cell) {
  uint64_t now = __atomic_load_n(&c->count[cell], __ATOMIC_RELAXED), by = now - c->seen[cell];
  if (by) c->seen[cell] = now;
  return by;
}

static void walk_paths(counters *c, uint32_t first) {
  for (uint32_t cell = first; cell < first + GROUP; cell++) {
    uint64_t executions = grown_by(c, cell);
    if (!executions) continue;
    for (uint32_t p = cell - PATH_CELLS; p != NO_PATH; p = path_before(p)) {
      by_path[path_block(p)] += executions;
      has_path[path_block(p) / GROUP] = 1;
    }
  }
}

static void pair_blocks(counters *c, uint32_t first, bool have_paths) {
  for (uint32_t b = first; b < first + GROUP; b++) {
    uint64_t executions = grown_by(c, b);
    if (have_paths) executions += by_path[b], by_path[b] = 0;
    if (executions) vector_add(b, executions);
  }
}

/* Marks of eight groups. */
typedef union marks {
  uint64_t word;
  uint8_t mark[8];
} marks;

static marks take_marks(uint8_t *array, size_t group) {
  uint64_t *at = (uint64_t *)(void *)&array[group];
  marks taken = {.word = __atomic_load_n(at, __ATOMIC_RELAXED)};
  if (taken.word) taken.word = __atomic_exchange_n(at, 0, __ATOMIC_SEQ_CST);
  return taken;
}

static size_t groups_of(size_t cells) { return (cells + GROUP - 1) / GROUP; }

static void collect(counters *c) {
  size_t paths = PATH_CELLS / GROUP + groups_of(paths_known()), blocks = groups_of(blocks_known());
  vector_begin();
  for (size_t g = PATH_CELLS / GROUP; g < paths; g += 8) {
    marks dirty = take_marks(c->dirty, g);
    for (unsigned i = 0; dirty.word && i < 8; i++)
      if (dirty.mark[i]) walk_paths(c, (uint32_t)(g + i) * GROUP);
  }
  for (size_t g = 0; g < blocks; g += 8) {
    marks dirty = take_marks(c->dirty, g), more = take_marks(has_path, g);
    dirty.word |= more.word;
    for (unsigned i = 0; dirty.word && i < 8; i++)
      if (dirty.mark[i]) pair_blocks(c, (uint32_t)(g + i) * GROUP, more.mark[i]);
  }
}

/* A block does not mark its group when an earlier one in the fragment has: a cut by another thread
 * in between clears the mark and leaves the block's count to the next mark. The final reading of a
 * thread must not wait for one. */
static void mark_all(counters *c) {
  memset(c->dirty, 1, groups_of(blocks_known()));
  memset(c->dirty + PATH_CELLS / GROUP, 1, groups_of(paths_known()));
}

void threads_mark_all(void) {
  for (thread *t = threads; t; t = t->next)
    if (t->counters) mark_all(t->counters);
}

static void flush(thread *t, uint64_t slice) {
  if (!t->counters) return;
  collect(t->counters);
  vector_put(t->number, slice);
}

void threads_flush(uint64_t slice) {
  for (thread *t = threads; t; t = t->next) flush(t, slice);
}

/* ---- totals and ends ------------------------------------------------------------------------- */

static uint64_t total_of(const counters *c) {
  uint64_t sum = 0;
  for (size_t b = 0, n = blocks_known(); b < n; b++)
    if (c->count[b]) sum += c->count[b] * block_instructions((uint32_t)b);
  for (size_t p = 0, n = paths_known(); p < n; p++) {
    uint64_t executions = c->count[PATH_CELLS + p];
    if (executions) sum += executions * path_instructions((uint32_t)p);
  }
  return sum;
}

uint64_t threads_total(void) {
  uint64_t sum = retired_total - base_total;
  for (const thread *t = threads; t; t = t->next)
    if (t->counters) sum += total_of(t->counters);
  return sum;
}

static void unlink_thread(thread *t) {
  for (thread **at = &threads; *at; at = &(*at)->next)
    if (*at == t) {
      *at = t->next;
      break;
    }
}

static void free_thread(thread *t) {
  release(t->counters, sizeof *t->counters);
  if (t->waste != shared_waste) release(t->waste, WASTE_SIZE);
  dr_global_free(t, sizeof *t);
}

void thread_ends(void *drcontext) {
  thread *t = current(drcontext);
  if (!t) return;
  waited_thread_ends(drcontext);
  lock();
  if (t->counters) {
    if (stream_is_open()) emit_known();
    mark_all(t->counters);
    flush(t, slice_under_way());
    retired_total += total_of(t->counters);
  }
  unlink_thread(t);
  dr_set_tls_field(drcontext, NULL);
  kernels_thread_ends(drcontext, t->kernel);
  start_up_thread_ends(drcontext);
  free_thread(t);
  unlock();
}

/* Only the forking thread survives in a forked child. Earlier counts belong to the parent. */
void threads_forked(void *drcontext) {
  thread *survivor = current(drcontext);
  for (thread *t = threads, *next; t; t = next) {
    next = t->next;
    if (t != survivor) free_thread(t);
  }
  threads = survivor;
  births = NULL;
  survivor->next = NULL;
  survivor->base = words();
  kernels_thread_starts(drcontext);
  numbers_forked();
  if (survivor->counters) {
    mark_all(survivor->counters);
    collect(survivor->counters);
  }
  retired_total = 0;
  base_total = survivor->counters ? total_of(survivor->counters) : 0;
  if (survivor->runtime) return;
  survivor->number = number_new();
  number_started(survivor->number, (long)dr_get_thread_id(drcontext));
}
