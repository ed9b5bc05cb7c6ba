/* SPDX-License-Identifier: Apache-2.0 */
/* xpuprof trace format. This header owns the on-disk format; nothing else may define it.
 *
 * A run directory holds `manifest.json` and one folder per execution (`profile`, `time-0`, ...); an
 * execution holds one folder per process, named by part.h, with up to two streams:
 *
 *   events.xpt   written by the runtime (libxpuprof_rt): device programs, kernels, launches,
 *                time stamps, GPU vectors
 *   cpu.xpt      written by the CPU engine: images, blocks, threads, CPU vectors
 *
 * A stream is a sequence of chunks, each 8-byte aligned in the file, little-endian:
 *
 *   struct xp_chunk_header, then `length` bytes of payload, then zeros up to the next multiple of 8
 *
 * The payload is a sequence of records that never cross a chunk:
 *
 *   u8 tag, varint length of the body, body
 *
 * Varints are unsigned LEB128. `str` is varint length + bytes (UTF-8, not terminated). A reader
 * skips a tag that it does not know (a newer minor writer), refuses a `version` that it does not
 * know, and checks every length against the file before use.
 *
 * Crash safety: the file is written through a shared mapping. The current chunk has state
 * XP_CHUNK_OPEN and a `length` that is raised after each complete record, so the recorded data is
 * intact whenever the process dies; the CRC is filled only when the chunk is sealed. A stream that
 * was not closed continues with zeros after its last chunk (a header whose magic is 0 ends it).
 */
#ifndef XPUPROF_TRACE_FORMAT_H
#define XPUPROF_TRACE_FORMAT_H
#include <stdint.h>

#define XP_MAGIC 0x31545058u /* "XPT1" */

/* Versions: each has a name and a sentence. Readers accept OLDEST..CURRENT. */
enum xp_version {
  XP_VERSION_FIRST_LIGHT = 1, /* records below, varint deltas, CRC32C per chunk */
  XP_VERSION_CURRENT = XP_VERSION_FIRST_LIGHT,
  XP_VERSION_OLDEST_SUPPORTED = XP_VERSION_FIRST_LIGHT,
};

enum xp_stream { XP_STREAM_EVENTS = 1, XP_STREAM_CPU = 2 };

enum xp_chunk_state {
  XP_CHUNK_OPEN = 1,   /* being written, or its writer died: length is right, crc is 0 */
  XP_CHUNK_SEALED = 2, /* crc holds the CRC32C of the payload */
};

struct xp_chunk_header {
  uint32_t magic;
  uint16_t stream;                  /* enum xp_stream */
  uint16_t version;                 /* enum xp_version */
  uint32_t state;                   /* enum xp_chunk_state */
  uint32_t crc32c;                  /* of the payload; 0 while open */
  uint64_t length;                  /* payload bytes in complete records */
  uint64_t first_slice, last_slice; /* slices the records refer to (closed range; 0,0 if none) */
};                                  /* 40 bytes */

/* A slice is numbered by the launch that ends it: slice i runs from the completion of launch i-1
 * (or program start) to the completion of launch i; slice N, N being the number of launches, runs
 * from the last completion to program exit. Launches are 0-based, per process, in the order of
 * their xpu_kernel_run calls. */

/* ---- records of events.xpt ------------------------------------------------------------------ */
enum xp_event_tag {
  /* META: str key, str value. Keys: pid, ppid, host, tsc_hz, engine, engine_version, mode
   * (profile|time), timer (sync|async), count_unit (lane|warp), warp_size (0: each kernel has its
   * own, in warp_size:<kernel id>), rank (given by a launcher, part.h), ancestry (`pid:start` of
   * the process and its ancestors, nearest first; start in clock ticks since boot), tsc_load (start
   * of the stream), age_ns (of the process then), tsc_exit, clock_error_ticks (of device stamps:
   * half the widest bracket around a correlation), window (as requested; absent: the whole process
   * is in the profile), ended (after the window), went_on (why the process was not ended although
   * requested). */
  XP_EV_META = 1,
  /* PROGRAM: varint program id (dense, from 0), 16 bytes hash of the program as the driver
   * received it (source or IL, and build options), u8 kind (enum xp_program_kind), str origin. */
  XP_EV_PROGRAM = 2,
  /* KERNEL: varint kernel id (dense, from 0), varint program id, str name, varint n_blocks,
   * n_blocks x (varint instructions, XP_MIX_COUNT varints), str reason: empty when the kernel is
   * instrumented, else why not (then n_blocks is 0). */
  XP_EV_KERNEL = 3,
  /* LAUNCH: varint launch, varint kernel id, u8 dimensions, 3 varints global size, 3 varints local
   * size (0 where the runtime chose), 3 varints global offset, varint queue, varint device,
   * varint host thread, u64 tsc_run (just before the enqueue call), u8 flags (xp_launch_flag),
   * str reason (why it ran uninstrumented, else empty). */
  XP_EV_LAUNCH = 4,
  /* COMPLETE: varint launch, u64 tsc of completion as seen by the host (0: not observed),
   * u64 device start, u64 device end, both already in TSC ticks (0: not known). */
  XP_EV_COMPLETE = 5,
  /* STAMP: u8 enum xp_stamp, u64 tsc. */
  XP_EV_STAMP = 6,
  /* WARP_VECTOR: varint vector id (dense, from 0), varint kernel id, varint n pairs, n x (varint
   * block delta, varint count): the block vector of one warp. Blocks ascend; the first delta is the
   * block itself, each further one the difference from the previous block. */
  XP_EV_WARP_VECTOR = 7,
  /* GRID_VECTOR: varint grid id (dense, from 0), varint kernel id, varint warps, varint n runs,
   * n x (varint vector id, varint run length): warps in logical order (linear work-group id,
   * then warp in the group). Run lengths add up to warps. u64 instructions: sum of
   * count x instructions over all warps. */
  XP_EV_GRID_VECTOR = 8,
  /* LAUNCH_GRID: varint launch, varint grid id. Identical launches share one grid id. */
  XP_EV_LAUNCH_GRID = 9,
  /* COPY: u8 direction (enum xp_copy), varint bytes, u64 tsc start,
   * u64 tsc end, varint queue. A data transfer, for reports; it bounds no slice. */
  XP_EV_COPY = 10,
  /* RESOURCES: varint launch, varint registers a work-item, varint static and varint dynamic
   * work-group local ("shared") bytes, varint private ("local") bytes a work-item. Only from
   * devices that report them. */
  XP_EV_RESOURCES = 11,
  /* LANES: varint launch, varint lane instructions: each instruction counted once for every
   * work-item that executed it. Divided by (warp size x the grid's warp instructions) it is the
   * launch's divergence efficiency. Only from engines that count warps and report it. */
  XP_EV_LANES = 12,
  /* WINDOW: varint launch (the next one's number), u8 open (1: from here on the process is in the
   * profile, 0: it is not), u64 tsc, str marker (empty: by number of launches). The first record
   * precedes all launches and gives the initial state. None without META window. */
  XP_EV_WINDOW = 13,
  /* LDV: varint launch, varint flags (xp_ldv_flag), varint accesses of all work-items, varint
   * accesses recorded, varint work-groups, varint work-groups recorded, varint n pairs, n x (varint
   * bucket delta, varint count): LRU stack distances of the launch's accesses to global memory,
   * buckets as in XP_CPU_LDV. The unit is a line touched, coalesced over a warp; the stack spans
   * the launches of a device. docs/memory.md defines the order. Written only on request. */
  XP_EV_LDV = 14,
  /* END: varint launches seen, varint launches instrumented. The last record of a stream that was
   * closed normally. */
  XP_EV_END = 15,
  /* HOST: u8 kind (enum xp_host), varint bytes, u64 tsc start, u64 tsc end. A call into the device
   * runtime that is neither launch nor transfer. Its work is not in the vectors, since it is the
   * runtime's. Earlier readers skip it. */
  XP_EV_HOST = 16,
  /* UNCOUNTED: varint launch, str reason: why an instrumented launch has no grid although the
   * process went on. Earlier readers skip it. */
  XP_EV_UNCOUNTED = 17,
};

enum xp_host {
  XP_HOST_BUILD = 0, /* of a program: compiled, linked or both */
  XP_HOST_WAIT = 1,  /* for queues or events */
  XP_HOST_ALLOCATION = 2,
};

enum xp_copy {
  XP_COPY_TO_DEVICE = 0,
  XP_COPY_TO_HOST = 1,
  XP_COPY_WITHIN = 2, /* and between devices */
  XP_COPY_FILL = 3,   /* memory set to a value */
};

enum xp_program_kind {
  XP_PROGRAM_SOURCE = 0,
  XP_PROGRAM_IL = 1,
  XP_PROGRAM_BINARY = 2,
  XP_PROGRAM_BUILTIN = 3,
};

enum xp_launch_flag {
  XP_LAUNCH_INSTRUMENTED = 1,
  XP_LAUNCH_LEFT_OUT = 2, /* not instrumented because --kernels did not choose it */
  XP_LAUNCH_OUTSIDE = 4,  /* not in the window of the profile */
};

enum xp_stamp { XP_STAMP_GPU_INIT = 0, XP_STAMP_GPU_FINI = 1 };

/* Static instruction mix of a GPU block, so that instruction-class metrics follow from the vectors.
 * The classes add up to the block's instruction count. */
enum xp_mix {
  XP_MIX_INT = 0,     /* integer, logic, comparison, conversion, address arithmetic */
  XP_MIX_FP,          /* floating point arithmetic and comparison */
  XP_MIX_LOAD_GLOBAL, /* also constant and generic address space */
  XP_MIX_STORE_GLOBAL,
  XP_MIX_LOAD_LOCAL, /* work-group local ("shared") */
  XP_MIX_STORE_LOCAL,
  XP_MIX_PRIVATE, /* loads and stores of private memory */
  XP_MIX_ATOMIC,
  XP_MIX_BARRIER,
  XP_MIX_BRANCH,  /* branches, switches, returns */
  XP_MIX_SPECIAL, /* calls of built-in functions (work-item, math, image) */
  XP_MIX_OTHER,
  XP_MIX_COUNT
};

/* ---- records of cpu.xpt --------------------------------------------------------------------- */
enum xp_cpu_tag {
  XP_CPU_META = 1, /* as XP_EV_META; keys: pid, engine, engine_version, hidden_isa,
                    * start_up (native: the first thread does not count until the first launch) */
  /* IMAGE: varint image id (dense, from 0), str build-id (lower-case hex; for a file without one,
   * "h" + 16 hex digits of a 64-bit hash of its bytes; for code not in a file, ""), str path. */
  XP_CPU_IMAGE = 2,
  /* BLOCK: varint block id (dense, from 0), varint image id, varint offset in the image (for code
   * not in a file: 64-bit hash of the code bytes), varint instructions. */
  XP_CPU_BLOCK = 3,
  /* THREAD: varint thread (dense, from 0, in order of creation among the threads that count),
   * varint system thread id. */
  XP_CPU_THREAD = 4,
  /* BBV: varint slice, varint thread, varint n pairs, varint instructions,
   * n x (varint block delta, varint count). Counts are executions of the block within the slice;
   * instructions is the sum of count x block instructions. */
  XP_CPU_BBV = 5,
  /* CUT: varint slice, u64 tsc, varint instructions: the slice's total over all threads. Written
   * after the slice's BBV records; it completes the slice. */
  XP_CPU_CUT = 6,
  /* LDV: varint slice, varint thread, varint n pairs, n x (varint bucket delta, varint count): LRU
   * stack distances of the thread's data accesses in the slice, in lines of 64 bytes. An access
   * whose line was last touched d other lines ago counts in bucket 0 (d = 0), or b (2^(b-1) <= d <
   * 2^b); in XP_LDV_COLD when the thread never touched it. The stack spans slices. Written only on
   * request, before the slice's CUT. */
  XP_CPU_LDV = 7,
  /* END: varint slices, varint instructions: the whole run's total, counted separately (not as the
   * sum of the cuts). The last record of a stream that was closed normally. */
  XP_CPU_END = 15,
};

enum xp_ldv_flag {
  XP_LDV_BEYOND = 1, /* the kernel has accesses that cannot be recorded (images, pipes, ...) */
  XP_LDV_FORGOT = 2, /* the stack was full: lines not touched recently count as never touched */
};

enum { XP_LDV_COLD = 63, XP_LDV_BUCKETS = 64 };

/* ---- identity -------------------------------------------------------------------------------
 * A block's identity is 64 bits that hold across runs, processes and machines: never an address,
 * never a counter of the run. It is not stored: readers compute it from what the records hold.
 * native/bridge/identity.c is the one implementation. All arithmetic is modulo 2^64:
 *
 *   word(h, w)   x = (h ^ w) + 0x9e3779b97f4a7c15
 *                x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9
 *                x = (x ^ x >> 27) * 0x94d049bb133111eb
 *                x ^ x >> 31
 *   bytes(h, s)  word() over s in words of 8 bytes, little-endian, the last one filled with
 *                zeros; then word() with the length of s
 *
 *   CPU block    word(word(bytes(0x5850435055424c4b, build-id), offset), instructions)
 *   GPU block    word(bytes(bytes(0x5850475055424c4b, program hash), kernel name), ordinal)
 *
 * The build-id enters as its hexadecimal text, the program hash as its 16 bytes. */

#endif
