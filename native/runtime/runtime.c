/* SPDX-License-Identifier: Apache-2.0 */
/* The boundary bus: implements boundary.h. Records every event in events.xpt, tells the CPU
 * engines, and stays silent (and harmless) without a run directory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else /* without it there is no Valgrind tool either */
#define VALGRIND_DO_CLIENT_REQUEST_STMT(request, a, b, c, d, e) \
  ((void)(request), (void)(a), (void)(b))
#endif

#include "grid_table.h"
#include "posix_os.h"
#include "spin_lock.h"
#include "system_call.h"
#include "window.h"
#include "writer.h"
#include "xpuprof/boundary.h"
#include "xpuprof/nesting.h"
#include "xpuprof/part.h"

static struct {
  int lock;
  int ready; /* configuration was read */
  xp_writer events;
  uint64_t launches, instrumented;
  uint32_t programs, kernels;
  uint32_t *kernel_blocks; /* per kernel: number of blocks */
  xpu_block **kernel_block_table;
  grid_table grids;
  uint8_t *scratch;
  size_t scratch_room;
  xpu_cut_callback cut;
  void *cut_user;
  xp_window window;
  int excluded;     /* --process does not name this process */
  int rank_goes_on; /* --after-window end was requested but does not apply to ranks */
  xpu_harvest harvest;
  int ending; /* the window has passed and the program is to be ended */
} bus;

static void lock(void) { spin_lock(&bus.lock); }

static void unlock(void) { spin_unlock(&bus.lock); }

/* Read before the program runs, since it may clear or overwrite its environment. */
static struct {
  xp_place place;
  const char *mode, *timer, *window; /* NULL: not set */
  int raw_clock;
} settings;

static const char *kept(const char *text) { return text ? strdup(text) : 0; }

__attribute__((constructor)) static void read_settings(void) {
  const char *clock = getenv(XPU_ENV_CLOCK);
  settings.raw_clock = clock && !strcmp(clock, "monotonic_raw");
  settings.place.directory = kept(getenv(XPU_ENV_DIR));
  settings.place.rank = kept(xp_rank(getenv));
  settings.place.failures = kept(getenv(XPU_ENV_FAILURES));
  settings.mode = kept(getenv(XPU_ENV_MODE));
  settings.timer = kept(getenv(XPU_ENV_TIMER));
  settings.window = kept(getenv(XPU_ENV_WINDOW));
  window_read(&bus.window, settings.window, getenv(XPU_ENV_AFTER_WINDOW));
  bus.rank_goes_on = bus.window.ends_program && xp_is_mpi_rank(getenv);
  if (bus.rank_goes_on) bus.window.ends_program = 0;
  bus.excluded = !window_process_matches(getenv(XPU_ENV_PROCESSES));
}

uint64_t xpu_tsc(void) {
  unsigned aux;
  if (!settings.raw_clock) return __rdtscp(&aux);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- records -------------------------------------------------------------------------------- */

static xp_body body(size_t room) {
  xp_body result;
  if (room > bus.scratch_room) {
    uint8_t *grown = realloc(bus.scratch, room * 2);
    if (grown) {
      bus.scratch = grown;
      bus.scratch_room = room * 2;
    }
  }
  xp_body_init(&result, bus.scratch, bus.scratch_room);
  return result;
}

static void put(uint8_t tag, const xp_body *record, uint64_t slice) {
  xp_writer_put(&bus.events, tag, record, slice);
}

#define PUT_NUMBERS(tag, slice, ...)                       \
  put_numbers(tag, slice, (const uint64_t[]){__VA_ARGS__}, \
              sizeof(const uint64_t[]){__VA_ARGS__} / sizeof(uint64_t))

static void put_numbers(uint8_t tag, uint64_t slice, const uint64_t *numbers, size_t count) {
  xp_body record = body(count * XP_VARINT_MAX);
  for (size_t i = 0; i < count; i++) xp_put_varint(&record, numbers[i]);
  put(tag, &record, slice);
}

/* Counts that are not zero: their number, then the distance to the last one and the count. */
static void add_pairs(xp_body *record, const uint64_t *counts, uint32_t size) {
  uint32_t pairs = 0, last = 0;
  for (uint32_t i = 0; i < size; i++) pairs += counts[i] != 0;
  xp_put_varint(record, pairs);
  for (uint32_t i = 0; i < size; i++)
    if (counts[i]) {
      xp_put_varint(record, i - last);
      xp_put_varint(record, counts[i]);
      last = i;
    }
}

static void put_meta(const char *key, const char *value) {
  xp_body record = body(strlen(key) + strlen(value) + 2 * XP_VARINT_MAX);
  xp_put_str(&record, key);
  xp_put_str(&record, value);
  put(XP_EV_META, &record, XP_NO_SLICE);
}

static void put_meta_number(const char *key, uint64_t value) {
  char digits[XP_DECIMAL_MAX];
  put_meta(key, xp_decimal(digits, value));
}

/* ---- life of the stream --------------------------------------------------------------------- */

static void after_fork_in_child(void) {
  /* The child shares the parent's mapping and releases it. It gets its own stream when it uses the
   * device. */
  bus.lock = 0;
  xp_writer_abandon(&bus.events);
  bus.ready = 0;
  window_forked(&bus.window);
  if (bus.window.given) xpu_window_turned(bus.window.open, 0);
}

static void reset_tables(void) {
  bus.launches = bus.instrumented = 0;
  bus.programs = bus.kernels = 0;
  grid_table_clear(&bus.grids);
}

static void put_window(const char *marker) {
  xp_body record = body(32 + strlen(marker));
  xp_put_varint(&record, bus.launches);
  xp_put_u8(&record, (uint8_t)bus.window.open);
  xp_put_u64(&record, xpu_tsc());
  xp_put_str(&record, marker);
  put(XP_EV_WINDOW, &record, XP_NO_SLICE);
}

static void open_stream(void) {
  char host[256] = "host", ancestry[1024];
  static int fork_handler;
  bus.ready = 1;
  if (!settings.place.directory || !*settings.place.directory || bus.excluded) return;
  if (!fork_handler) fork_handler = !pthread_atfork(0, 0, after_fork_in_child);
  if (xp_writer_open(&bus.events, &xp_linux, &settings.place, XP_STREAM_EVENTS)) return;
  reset_tables();
  put_meta_number("pid", (uint64_t)getpid());
  put_meta_number("ppid", (uint64_t)getppid());
  gethostname(host, sizeof host - 1);
  put_meta("host", host);
  if (settings.place.rank) put_meta("rank", settings.place.rank);
  posix_ancestry(ancestry, sizeof ancestry);
  put_meta("ancestry", ancestry);
  put_meta("mode", settings.mode ? settings.mode : "profile");
  put_meta("timer", settings.timer ? settings.timer : "");
  put_meta_number("tsc_load", xpu_tsc());
  put_meta_number("age_ns", posix_age());
  if (!bus.window.given) return;
  put_meta("window", settings.window);
  if (bus.rank_goes_on) put_meta("went_on", "a rank is not ended after its window");
  put_window("");
}

/* True when events are recorded; call with the lock held. */
static int recording(void) {
  if (!bus.ready) {
    xpu_api_enter(); /* libc's work here is not the program's */
    open_stream();
    xpu_api_leave();
  }
  return bus.events.is_open;
}

enum { EXIT_PATIENCE_MS = 2000 };

__attribute__((destructor)) static void close_stream(void) {
  /* exit() may be called while a thread is stopped inside: then the stream stays open. */
  for (int tries = 0; __atomic_exchange_n(&bus.lock, 1, __ATOMIC_ACQUIRE); tries++) {
    if (tries == EXIT_PATIENCE_MS) return;
    nanosleep(&(struct timespec){0, 1000000}, 0);
  }
  if (bus.events.is_open) {
    put_meta_number("tsc_exit", xpu_tsc());
    PUT_NUMBERS(XP_EV_END, XP_NO_SLICE, bus.launches, bus.instrumented);
    xp_writer_close(&bus.events);
  }
  unlock();
}

static void put_stamp(uint8_t which) {
  xp_body record = body(16);
  xp_put_u8(&record, which);
  xp_put_u64(&record, xpu_tsc());
  put(XP_EV_STAMP, &record, XP_NO_SLICE);
}

/* ---- boundary.h ----------------------------------------------------------------------------- */

void xpu_gpu_init(const char *engine, const char *version, const char *count_unit,
                  uint32_t warp_size) {
  lock();
  if (recording()) {
    put_meta("engine", engine);
    put_meta("engine_version", version);
    put_meta("count_unit", count_unit);
    put_meta_number("warp_size", warp_size);
    put_stamp(XP_STAMP_GPU_INIT);
  }
  unlock();
}

void xpu_gpu_fini(void) {
  lock();
  if (recording()) put_stamp(XP_STAMP_GPU_FINI);
  unlock();
}

void xpu_meta(const char *key, const char *value) {
  lock();
  if (recording()) put_meta(key, value);
  unlock();
}

void xpu_failed(const char *reason) {
  if (settings.place.directory && !bus.excluded) xp_place_failure(&settings.place, reason);
}

uint32_t xpu_program_built(const uint8_t hash[16], uint32_t kind, const char *origin) {
  lock();
  uint32_t id = bus.programs;
  if (recording()) {
    id = bus.programs++;
    xp_body record = body(64 + (origin ? strlen(origin) : 0));
    xp_put_varint(&record, id);
    xp_put_bytes(&record, hash, 16);
    xp_put_u8(&record, (uint8_t)kind);
    xp_put_str(&record, origin);
    put(XP_EV_PROGRAM, &record, XP_NO_SLICE);
  }
  unlock();
  return id;
}

/* Keeps the kernel's blocks, from which the instructions of its grids are computed. */
static int keep_kernel(uint32_t id, uint32_t n_blocks, const xpu_block *blocks) {
  if ((id & (id - 1)) == 0) { /* room for a power of two */
    size_t room = id ? 2 * (size_t)id : 1;
    uint32_t *counts = realloc(bus.kernel_blocks, room * sizeof *counts);
    if (counts) bus.kernel_blocks = counts;
    xpu_block **tables = realloc(bus.kernel_block_table, room * sizeof *tables);
    if (tables) bus.kernel_block_table = tables;
    if (!counts || !tables) return 0;
  }
  xpu_block *copy = malloc((n_blocks + 1) * sizeof *copy);
  if (!copy) return 0;
  if (n_blocks) memcpy(copy, blocks, n_blocks * sizeof *copy);
  bus.kernel_blocks[id] = n_blocks;
  bus.kernel_block_table[id] = copy;
  return 1;
}

uint32_t xpu_kernel_built(uint32_t program, const char *name, uint32_t n_blocks,
                          const xpu_block *blocks, const char *reason) {
  lock();
  uint32_t id = bus.kernels;
  if (recording() && !keep_kernel(id, n_blocks, blocks))
    xp_writer_fail(&bus.events, "there is no memory for the blocks of a kernel");
  if (recording()) {
    bus.kernels++;
    xp_body record = body(64 + strlen(name) + (reason ? strlen(reason) : 0) +
                          n_blocks * (1 + XP_MIX_COUNT) * (size_t)5);
    xp_put_varint(&record, id);
    xp_put_varint(&record, program);
    xp_put_str(&record, name);
    xp_put_varint(&record, n_blocks);
    for (uint32_t b = 0; b < n_blocks; b++) {
      xp_put_varint(&record, blocks[b].instructions);
      for (int m = 0; m < XP_MIX_COUNT; m++) xp_put_varint(&record, blocks[b].mix[m]);
    }
    xp_put_str(&record, reason);
    put(XP_EV_KERNEL, &record, XP_NO_SLICE);
  }
  unlock();
  return id;
}

static uint32_t thread_number(void) {
  static uint32_t threads;
  static __thread uint32_t mine;
  if (!mine) mine = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
  return mine - 1;
}

/* A launch is instrumented only inside the window. */
static uint8_t flags_of(const xpu_launch *launch) {
  if (!launch->reason) return XP_LAUNCH_INSTRUMENTED;
  if (!bus.window.open || !strcmp(launch->reason, XPU_REASON_OUTSIDE)) return XP_LAUNCH_OUTSIDE;
  return strcmp(launch->reason, XPU_REASON_LEFT_OUT) ? 0 : XP_LAUNCH_LEFT_OUT;
}

static void put_launch(uint64_t number, const xpu_launch *launch) {
  xp_body record = body(256 + (launch->reason ? strlen(launch->reason) : 0));
  xp_put_varint(&record, number);
  xp_put_varint(&record, launch->kernel);
  xp_put_u8(&record, (uint8_t)launch->dimensions);
  for (int d = 0; d < 3; d++) xp_put_varint(&record, launch->global[d]);
  for (int d = 0; d < 3; d++) xp_put_varint(&record, launch->local[d]);
  for (int d = 0; d < 3; d++) xp_put_varint(&record, launch->offset[d]);
  xp_put_varint(&record, launch->queue);
  xp_put_varint(&record, launch->device);
  xp_put_varint(&record, thread_number());
  xp_put_u64(&record, launch->tsc_run ? launch->tsc_run : xpu_tsc());
  xp_put_u8(&record, flags_of(launch));
  xp_put_str(&record, launch->reason);
  put(XP_EV_LAUNCH, &record, number);
}

/* ---- start-up ---------------------------------------------------------------------------------
 */
static xpu_start_up first_thread;

__attribute__((constructor)) static void tell_engine(void) {
  if (getenv(XPU_ENV_START_UP))
    xp_system_call(SYS_prctl, XPU_PRCTL_LOADED, (long)&first_thread, 0, 0);
}

static int starts_up(void) { return first_thread.thread == (uint64_t)pthread_self(); }

static void nest(bool count) {
  if (starts_up()) nesting_enter(&first_thread.depth, &first_thread.off, count);
}

static void nest_no_more(void) {
  if (starts_up() && first_thread.depth) first_thread.depth--;
}

/* ---- slices ----------------------------------------------------------------------------------
 */
__attribute__((noinline)) void xpu_cut(uint64_t slice) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_CUT, slice, 0, 0, 0, 0);
}

/* Reports to trace and CPU engine that the window opened or closed. */
static void turn_window(int change, const char *marker) {
  if (change == XP_WINDOW_STAYS) return;
  put_window(marker);
  xpu_window_turned(bus.window.open, bus.window.over);
  if (bus.window.over && bus.window.ends_program) bus.ending = 1;
}

__attribute__((noinline)) uint64_t xpu_kernel_run(const xpu_launch *launch) {
  lock();
  uint64_t number = bus.launches;
  if (recording()) {
    bus.launches++;
    if (!launch->reason) bus.instrumented++;
    put_launch(number, launch);
    if (first_thread.thread) xp_system_call(SYS_prctl, XPU_PRCTL_LAUNCHES, 0, 0, 0);
    xpu_cut(number);
    if (bus.cut) bus.cut(number, bus.cut_user);
    turn_window(window_launched(&bus.window, bus.launches), "");
  }
  unlock();
  return number;
}

void xpu_launch_resources(uint64_t launch, const xpu_resources *resources) {
  lock();
  if (recording())
    PUT_NUMBERS(XP_EV_RESOURCES, launch, launch, resources->registers, resources->local_static,
                resources->local_dynamic, resources->private_bytes);
  unlock();
}

void xpu_launch_lanes(uint64_t launch, uint64_t lane_instructions) {
  lock();
  if (recording()) PUT_NUMBERS(XP_EV_LANES, launch, launch, lane_instructions);
  unlock();
}

__attribute__((noinline)) void xpu_kernel_complete(const xpu_completion *completion) {
  lock();
  if (recording()) {
    xp_body record = body(64);
    xp_put_varint(&record, completion->launch);
    xp_put_u64(&record, completion->tsc_host);
    xp_put_u64(&record, completion->tsc_start);
    xp_put_u64(&record, completion->tsc_end);
    put(XP_EV_COMPLETE, &record, completion->launch);
  }
  unlock();
}

/* ---- vectors: every distinct warp vector and every distinct grid is stored once ------------- */

static void put_vector(uint64_t id, uint32_t kernel, const uint64_t *counts, uint32_t n_blocks) {
  xp_body record = body((3 + 2 * (size_t)n_blocks) * XP_VARINT_MAX);
  xp_put_varint(&record, id);
  xp_put_varint(&record, kernel);
  add_pairs(&record, counts, n_blocks);
  put(XP_EV_WARP_VECTOR, &record, XP_NO_SLICE);
}

static uint64_t vector_instructions(uint32_t kernel, const uint64_t *counts) {
  uint64_t sum = 0;
  for (uint32_t b = 0; b < bus.kernel_blocks[kernel]; b++)
    sum += counts[b] * bus.kernel_block_table[kernel][b].instructions;
  return sum;
}

/* `instructions`: of each distinct vector. */
static void put_grid(uint64_t id, const xpu_grid *grid, const uint64_t *vector_ids,
                     const uint64_t *instructions) {
  uint64_t warps = 0, sum = 0;
  xp_body record = body((6 + 2 * grid->n_runs) * XP_VARINT_MAX);
  for (uint64_t r = 0; r < grid->n_runs; r++) {
    warps += grid->run_length[r];
    sum += grid->run_length[r] * instructions[grid->run_vector[r]];
  }
  xp_put_varint(&record, id);
  xp_put_varint(&record, grid->kernel);
  xp_put_varint(&record, warps);
  xp_put_varint(&record, grid->n_runs);
  for (uint64_t r = 0; r < grid->n_runs; r++) {
    xp_put_varint(&record, vector_ids[grid->run_vector[r]]);
    xp_put_varint(&record, grid->run_length[r]);
  }
  xp_put_u64(&record, sum);
  put(XP_EV_GRID_VECTOR, &record, XP_NO_SLICE);
}

static void put_uncounted(uint64_t launch, const char *reason) {
  xp_body record = body(2 * XP_VARINT_MAX + strlen(reason));
  xp_put_varint(&record, launch);
  xp_put_str(&record, reason);
  put(XP_EV_UNCOUNTED, &record, launch);
}

void xpu_kernel_counts(uint64_t launch, const xpu_grid *grid) {
  lock();
  if (recording() && grid->kernel < bus.kernels) {
    uint32_t n_blocks = bus.kernel_blocks[grid->kernel];
    uint64_t *ids = malloc((grid->n_vectors + 1) * 2 * sizeof *ids);
    uint64_t *instructions = ids ? ids + grid->n_vectors + 1 : 0, grid_id = 0;
    for (uint32_t v = 0; ids && v < grid->n_vectors; v++) {
      const uint64_t *counts = grid->counts + (size_t)v * n_blocks;
      instructions[v] = vector_instructions(grid->kernel, counts);
      if (grid_table_vector(&bus.grids, grid->kernel, counts, n_blocks, &ids[v]))
        put_vector(ids[v], grid->kernel, counts, n_blocks);
    }
    if (ids) {
      if (grid_table_grid(&bus.grids, grid, ids, &grid_id))
        put_grid(grid_id, grid, ids, instructions);
      PUT_NUMBERS(XP_EV_LAUNCH_GRID, launch, launch, grid_id);
    } else {
      put_uncounted(launch, "there is no memory for its counts");
    }
    free(ids);
  }
  unlock();
}

void xpu_launch_uncounted(uint64_t launch, const char *reason) {
  lock();
  if (recording()) put_uncounted(launch, reason);
  unlock();
}

void xpu_launch_ldv(uint64_t launch, const xpu_ldv *ldv) {
  lock();
  if (recording()) {
    xp_body record = body((7 + 2 * XP_LDV_BUCKETS) * XP_VARINT_MAX);
    xp_put_varint(&record, launch);
    xp_put_varint(&record, ldv->flags);
    xp_put_varint(&record, ldv->accesses);
    xp_put_varint(&record, ldv->recorded);
    xp_put_varint(&record, ldv->groups);
    xp_put_varint(&record, ldv->recorded_groups);
    add_pairs(&record, ldv->count, XP_LDV_BUCKETS);
    put(XP_EV_LDV, &record, launch);
  }
  unlock();
}

void xpu_copy(uint32_t direction, uint64_t bytes, uint64_t tsc_start, uint64_t tsc_end,
              uint32_t queue) {
  lock();
  if (recording()) {
    xp_body record = body(64);
    xp_put_u8(&record, (uint8_t)direction);
    xp_put_varint(&record, bytes);
    xp_put_u64(&record, tsc_start);
    xp_put_u64(&record, tsc_end);
    xp_put_varint(&record, queue);
    put(XP_EV_COPY, &record, XP_NO_SLICE);
  }
  unlock();
}

void xpu_host_event(uint32_t kind, uint64_t bytes, uint64_t tsc_start, uint64_t tsc_end) {
  lock();
  if (recording()) {
    xp_body record = body(64);
    xp_put_u8(&record, (uint8_t)kind);
    xp_put_varint(&record, bytes);
    xp_put_u64(&record, tsc_start);
    xp_put_u64(&record, tsc_end);
    put(XP_EV_HOST, &record, XP_NO_SLICE);
  }
  unlock();
}

__attribute__((noinline)) void xpu_api_enter(void) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_API_ENTER, 0, 0, 0, 0, 0);
  nest(false);
}

__attribute__((noinline)) void xpu_api_leave(void) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_API_LEAVE, 0, 0, 0, 0, 0);
  nest_no_more();
}

__attribute__((noinline)) void xpu_callback_enter(void) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_CALLBACK_ENTER, 0, 0, 0, 0, 0);
  nest(true);
}

__attribute__((noinline)) void xpu_callback_leave(void) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_CALLBACK_LEAVE, 0, 0, 0, 0, 0);
  nest_no_more();
}

void xpu_kernels_loaded(int compute_only) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_KERNELS, compute_only, 0, 0, 0, 0);
}

void xpu_register_cut(xpu_cut_callback callback, void *user) {
  lock();
  bus.cut = callback;
  bus.cut_user = user;
  unlock();
}

/* ---- window --------------------------------------------------------------------------------- */

int xpu_window_is_open_after(uint64_t launches) {
  lock();
  int open = window_is_open(&bus.window, bus.launches + launches);
  unlock();
  return open;
}

int xpu_window_is_open(void) { return __atomic_load_n(&bus.window.open, __ATOMIC_RELAXED); }

int xpu_process_counts(void) { return !bus.excluded; }

__attribute__((noinline)) void xpu_window_turned(int open, int for_good) {
  VALGRIND_DO_CLIENT_REQUEST_STMT(XPU_CR_WINDOW, open, for_good, 0, 0, 0);
}

void xpu_window_begin(const char *marker) {
  lock();
  if (recording()) turn_window(window_begins(&bus.window, marker), marker);
  unlock();
}

void xpu_window_end(const char *marker) {
  lock();
  if (recording()) turn_window(window_ends(&bus.window, marker), marker);
  unlock();
  xpu_window_settle();
}

void xpu_register_harvest(xpu_harvest harvest) {
  lock();
  bus.harvest = harvest;
  unlock();
}

/* _exit, not exit: the program's own handlers expect its regular end. */
void xpu_window_settle(void) {
  static int begun;
  if (!__atomic_load_n(&bus.ending, __ATOMIC_ACQUIRE)) return;
  if (__atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL)) return;
  if (bus.harvest) bus.harvest();
  lock();
  if (recording()) put_meta("ended", "after the window");
  unlock();
  close_stream();
  _exit(0);
}
