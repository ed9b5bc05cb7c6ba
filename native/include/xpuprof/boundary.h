/* SPDX-License-Identifier: Apache-2.0 */
/* xpuprof boundary ABI: how device-side libraries report what the device does.
 *
 * GPU-side libraries (OpenCL layer, CUPTI timer, NVBit and GTPin tools) are injected into the
 * application and call, in its process, one exported C function of libxpuprof_rt per event. Each
 *   (a) stamps the TSC and appends the event to events.xpt,
 *   (b) executes a Valgrind client request (a few cheap no-op instructions natively), by which
 *       the Valgrind tool cuts its vectors,
 *   (c) is a stable symbol that the Pin and DynamoRIO tools hook by name,
 *   (d) calls the registered callbacks (the paper's Fig. 4).
 * One set of functions, so that every CPU engine works with every GPU engine.
 *
 * All functions are thread-safe and never fail for the caller: when the trace cannot be written the
 * runtime goes silent, which the missing END record shows, and the program continues.
 */
#ifndef XPUPROF_BOUNDARY_H
#define XPUPROF_BOUNDARY_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XPU_API __attribute__((visibility("default")))

/* Environment that the launcher sets. */
#define XPU_ENV_DIR "XPUPROF_DIR"       /* execution folder; unset: the runtime is inert */
#define XPU_ENV_MODE "XPUPROF_MODE"     /* profile | time */
#define XPU_ENV_TIMER "XPUPROF_TIMER"   /* sync | async; in a profile, async: device stamps too */
#define XPU_ENV_CLOCK "XPUPROF_CLOCK"   /* tsc | monotonic_raw: the clock of every stamp */
#define XPU_ENV_MEMORY "XPUPROF_MEMORY" /* room for a launch's accesses, bytes; unset: none */
#define XPU_ENV_FAILURES "XPUPROF_FAILURES"     /* abstract socket for failure reports */
#define XPU_ENV_CLINST "XPUPROF_CLINST"         /* UNIX socket of the OpenCL instrumenter */
#define XPU_ENV_TRANSLATED "XPUPROF_TRANSLATED" /* set: under a CPU engine that translates */

#define XPU_ENV_START_UP "XPUPROF_START_UP" /* set: a CPU engine may run start-up natively */
#define XPU_ENV_RUNTIME "XPUPROF_RUNTIME"   /* path of libxpuprof_rt, for marker.h */
#define XPU_ENV_WINDOW "XPUPROF_WINDOW"     /* RANGE or [RANGE]@MARKER (docs/filters.md) */
#define XPU_ENV_AFTER_WINDOW "XPUPROF_AFTER_WINDOW" /* continue | end */
#define XPU_ENV_PROCESSES "XPUPROF_PROCESSES"       /* globs, one per line: processes that count */

/* Reasons why a launch deliberately has no vectors. The runtime recognises their text. */
#define XPU_REASON_LEFT_OUT "left out by --kernels"
#define XPU_REASON_OUTSIDE "outside the window"
/* For `xpu_launch_uncounted`. */
#define XPU_REASON_NOT_READ "its counts could not be read"
#define XPU_REASON_ENDED "the process ended before the counts were read"

/* Valgrind client requests of our tool (VG_USERREQ_TOOL_BASE('X','P') + n). */
enum xpu_client_request {
  XPU_CR_CUT = 0x58500000 + 0,       /* arg1: slice that just ended */
  XPU_CR_API_ENTER = 0x58500000 + 1, /* calling thread is inside the device runtime from here on */
  XPU_CR_API_LEAVE = 0x58500000 + 2, /* ... and out of it again (calls nest) */
  XPU_CR_CALLBACK_ENTER = 0x58500000 + 3, /* device runtime calls user code: count again */
  XPU_CR_CALLBACK_LEAVE = 0x58500000 + 4,
  XPU_CR_WINDOW = 0x58500000 + 5,  /* arg1: 1 count from here on, 0 do not; arg2: permanently */
  XPU_CR_KERNELS = 0x58500000 + 6, /* arg1: as in xpu_kernels_loaded */
};

typedef struct xpu_block {
  uint32_t instructions;
  uint16_t mix[12]; /* enum xp_mix */
} xpu_block;

typedef struct xpu_launch {
  uint32_t kernel; /* from xpu_kernel_built */
  uint32_t dimensions;
  uint64_t global[3], local[3], offset[3]; /* local 0: the runtime chose */
  uint32_t queue, device;
  uint64_t tsc_run;   /* TSC just before the enqueue call; 0: stamp now */
  const char *reason; /* NULL: instrumented; else why not */
} xpu_launch;

typedef struct xpu_completion {
  uint64_t launch;
  uint64_t tsc_host;           /* completion seen by the host, 0 if not observed */
  uint64_t tsc_start, tsc_end; /* device stamps in TSC ticks, 0 if not known */
} xpu_completion;

/* The device resources of a launch, where the device reports them. */
typedef struct xpu_resources {
  uint32_t registers;     /* per work-item */
  uint32_t local_static;  /* bytes of work-group local ("shared") memory, known when compiled ... */
  uint32_t local_dynamic; /* ... and given at the launch */
  uint32_t private_bytes; /* per work-item */
} xpu_resources;

/* One warp's vector: `counts[n_blocks]`, dense, by block ordinal of the kernel. */
typedef struct xpu_grid {
  uint32_t kernel;
  uint32_t n_vectors;         /* distinct warp vectors */
  const uint64_t *counts;     /* n_vectors x n_blocks of the kernel */
  uint64_t n_runs;            /* run-length coded sequence of vectors in logical warp order */
  const uint32_t *run_vector; /* index into the distinct vectors */
  const uint64_t *run_length;
} xpu_grid;

/* LRU stack distances of a launch's accesses to global memory (docs/memory.md). */
typedef struct xpu_ldv {
  uint64_t accesses; /* executed by work-items, loads, stores and atomics */
  uint64_t recorded; /* number of them recorded */
  uint64_t groups, recorded_groups;
  uint32_t flags;        /* enum xp_ldv_flag */
  const uint64_t *count; /* XP_LDV_BUCKETS */
} xpu_ldv;

/* A device side starts (first device call) and ends (its library is unloaded or the program exits).
 * `count_unit` is "lane" (a block counts once for each work-item that executes it) or "warp". */
XPU_API void xpu_gpu_init(const char *engine, const char *version, const char *count_unit,
                          uint32_t warp_size);
XPU_API void xpu_gpu_fini(void);
/* A fact about the run that has no record of its own; see META in trace_format.h. */
XPU_API void xpu_meta(const char *key, const char *value);
/* An engine cannot work in this process: the launcher is told and the run is partial. */
XPU_API void xpu_failed(const char *reason);

/* Register a program and a kernel; both return the dense id. `reason` NULL: instrumented. */
XPU_API uint32_t xpu_program_built(const uint8_t hash[16], uint32_t kind, const char *origin);
XPU_API uint32_t xpu_kernel_built(uint32_t program, const char *name, uint32_t n_blocks,
                                  const xpu_block *blocks, const char *reason);

/* A launch was accepted by the device runtime. Returns its number, which is the number of the
 * slice that it ends. This is where CPU engines cut: between the enqueue call and the kernel's
 * completion the enqueuing thread does none of the program's work, so a cut here gives the same
 * vectors as a cut at completion and never has to wait for the device. */
XPU_API uint64_t xpu_kernel_run(const xpu_launch *launch);
XPU_API void xpu_launch_resources(uint64_t launch, const xpu_resources *resources);
XPU_API void xpu_kernel_complete(const xpu_completion *completion);
/* The launch's vectors, once read back. Identical grids are stored once. */
XPU_API void xpu_kernel_counts(uint64_t launch, const xpu_grid *grid);
/* Or, in place of counts, the reason why there are none. */
XPU_API void xpu_launch_uncounted(uint64_t launch, const char *reason);
/* The launch's instructions, each counted once for every work-item that executed it. */
XPU_API void xpu_launch_lanes(uint64_t launch, uint64_t lane_instructions);
XPU_API void xpu_launch_ldv(uint64_t launch, const xpu_ldv *ldv);
XPU_API void xpu_copy(uint32_t direction, uint64_t bytes, uint64_t tsc_start, uint64_t tsc_end,
                      uint32_t queue);
XPU_API void xpu_host_event(uint32_t kind, uint64_t bytes, uint64_t tsc_start, uint64_t tsc_end);

/* Bracket every call into the device runtime (and, inside, every call back into user code), so that
 * CPU engines exclude the runtime's own work: spinning, waiting, compiling. Threads created inside
 * belong to the runtime and are excluded permanently. */
XPU_API void xpu_api_enter(void);
XPU_API void xpu_api_leave(void);
XPU_API void xpu_callback_enter(void);
XPU_API void xpu_callback_leave(void);

/* A CPU engine may run a process's first thread outside its translator until the first launch.
 * Calls that no kernel knows tell it where this is, and of the launch. */
typedef struct xpu_start_up {
  uint64_t thread; /* pthread_self() of that thread; 0: there is none */
  uint32_t depth;  /* of its nesting, which the engine does not see */
  uint64_t off;    /* see nesting.h */
} xpu_start_up;
enum { XPU_PRCTL_LOADED = 0x78707501, XPU_PRCTL_LAUNCHES = 0x78707502 };

/* Calls work(data). A CPU engine that translates the process may run it outside its translator: for
 * code of a device runtime that executes once, like its compiler. `work` does not wait for the
 * device, calls functions of the program through xpu_translated() only, and returns. */
XPU_API void xpu_natively(void (*work)(void *), void *data);
/* Calls work(data), translated even within xpu_natively(). */
XPU_API void xpu_translated(void (*work)(void *), void *data);

/* As the kernel has them. */
typedef struct xpu_signal_action {
  uint64_t handler, flags, restorer, mask;
} xpu_signal_action;

enum { XPU_SIGNALS = 64 };

typedef struct xpu_native_call {
  void (*work)(void *);
  void *data;
  uint64_t changed; /* signals whose action `work` set, signal n in bit n - 1; the engine has ... */
  xpu_signal_action action[XPU_SIGNALS]; /* ... undone it, and has to see it done */
  uint32_t stack_changed;                /* likewise sigaltstack */
  uint64_t stack[3];
  /* The engine's, called by `work`: what follows is translated. Unless it goes on natively, `work`
   * returns to `landing`, with the stack 8 bytes below xpu_run_natively()'s. */
  void (*stop)(struct xpu_native_call *);
  const void *landing;
  uint64_t engine[24]; /* what it needs for that */
} xpu_native_call;

/* Where a CPU tool that hooks by name runs call->work; nonzero if it has. */
XPU_API int xpu_run_natively(xpu_native_call *call);
/* Likewise, where it goes on with the work that it has stopped; nonzero if it does. */
XPU_API int xpu_go_on_natively(xpu_native_call *call);

/* The device runtime has generated code in this process's memory. `compute_only`: its kernels call
 * mathematical and memory functions only, so an engine that translates the process may run them
 * outside its translator. */
XPU_API void xpu_kernels_loaded(int compute_only);

/* Called by xpu_kernel_run for each recorded launch: where CPU tools that hook by name cut. */
XPU_API void xpu_cut(uint64_t slice);

/* CPU tools that live in the process (Pin, DynamoRIO) may register instead of hooking by name. */
typedef void (*xpu_cut_callback)(uint64_t slice, void *user);
XPU_API void xpu_register_cut(xpu_cut_callback callback, void *user);

/* ---- the window of the profile (docs/filters.md) --------------------------------------------
 * A GPU engine asks before each launch whether it is to be instrumented, under the same lock as
 * its xpu_kernel_run; outside the window the program's own kernel runs, recorded with
 * XPU_REASON_OUTSIDE. */
XPU_API int xpu_window_is_open(void);
/* The same for the launch after so many others: a graph's kernels are launched by one call. */
XPU_API int xpu_window_is_open_after(uint64_t launches);
/* Whether this process is to be profiled (--process). If not, the runtime is inert in it. */
XPU_API int xpu_process_counts(void);
/* Called by the program's markers (marker.h). */
XPU_API void xpu_window_begin(const char *marker);
XPU_API void xpu_window_end(const char *marker);
/* The marker that cudaProfilerStart and cudaProfilerStop switch on and off. */
#define XPU_MARKER_CUDA_PROFILER "cudaProfilerApi"
/* Executes XPU_CR_WINDOW; in-process CPU tools hook it by name. */
XPU_API void xpu_window_turned(int open, int for_good);
/* Collects every launch still running; called before the program is ended after its window. */
typedef void (*xpu_harvest)(void);
XPU_API void xpu_register_harvest(xpu_harvest harvest);
/* GPU engines call it after each launch without a lock: if the window has passed and --after-window
 * end was requested, it ends the process with exit code 0 and does not return. MPI ranks
 * continue. */
XPU_API void xpu_window_settle(void);

/* Now, in ticks of the run's clock: rdtscp, or CLOCK_MONOTONIC_RAW in nanoseconds where the TSC is
 * not invariant. */
XPU_API uint64_t xpu_tsc(void);

#ifdef __cplusplus
}
#endif
#endif
