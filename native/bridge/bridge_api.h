/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge's interface to Python. cffi parses this file unchanged and the C sources include it,
 * so it contains only declarations, no preprocessor lines. Types come from <stdint.h>/<stddef.h>.
 *
 * Python takes layouts and names of structs and enums from here and from trace_format.h, through
 * cffi (build_bridge.py, xpuprof/trace/layout.py). Tables are arrays of rows; long lists (pairs of
 * a vector, runs of a grid) are one array per column. */

/* A text in the stream's text array: `size` bytes of UTF-8 (not checked) from `at`. */
typedef struct xp_text {
  uint64_t at, size;
} xp_text;

typedef struct xp_meta_row {
  xp_text key, value;
} xp_meta_row;

typedef struct xp_program_row {
  uint8_t hash[16];
  uint64_t kind;
  xp_text origin;
} xp_program_row;

typedef struct xp_kernel_row {
  uint64_t first_block; /* row of its block 0 among the GPU blocks */
  uint32_t n_blocks, program;
  xp_text name, reason;
} xp_kernel_row;

typedef struct xp_gpu_block_row {
  uint64_t identity;
  uint32_t instructions, kernel;
  uint16_t mix[12];
} xp_gpu_block_row;

typedef struct xp_launch_row {
  uint64_t launch, tsc_run;
  uint64_t global[3], local[3], offset[3];
  uint32_t kernel, dimensions, queue, device, thread, flags;
  xp_text reason;
} xp_launch_row;

typedef struct xp_complete_row {
  uint64_t launch, tsc_host, dev_start, dev_end;
} xp_complete_row;

typedef struct xp_stamp_row {
  uint64_t which, tsc;
} xp_stamp_row;

typedef struct xp_vector_row {
  uint64_t first_pair;
  uint32_t n_pairs, kernel;
} xp_vector_row;

typedef struct xp_grid_row {
  uint64_t warps, instructions, first_run, n_runs;
  uint64_t kernel;
} xp_grid_row;

typedef struct xp_launch_grid_row {
  uint64_t launch, grid;
} xp_launch_grid_row;

typedef struct xp_copy_row {
  uint64_t bytes, tsc_start, tsc_end;
  uint32_t queue, direction;
} xp_copy_row;

typedef struct xp_host_row {
  uint64_t bytes, tsc_start, tsc_end;
  uint64_t kind;
} xp_host_row;

typedef struct xp_resource_row {
  uint64_t launch;
  uint32_t registers, local_static, local_dynamic, private_bytes;
} xp_resource_row;

typedef struct xp_lanes_row {
  uint64_t launch, instructions;
} xp_lanes_row;

typedef struct xp_uncounted_row {
  uint64_t launch;
  xp_text reason;
} xp_uncounted_row;

typedef struct xp_device_ldv_row {
  uint64_t launch, accesses, recorded, groups, recorded_groups;
  uint64_t first_pair, n_pairs, flags;
} xp_device_ldv_row;

typedef struct xp_window_row {
  uint64_t launch, open, tsc;
  xp_text marker;
} xp_window_row;

typedef struct xp_image_row {
  xp_text build_id, path;
} xp_image_row;

typedef struct xp_cpu_block_row {
  uint64_t identity, offset;
  uint32_t image, instructions;
} xp_cpu_block_row;

typedef struct xp_thread_row {
  uint64_t system_id;
} xp_thread_row;

typedef struct xp_bbv_row {
  uint64_t slice, instructions, first_pair, n_pairs;
  uint64_t thread;
} xp_bbv_row;

typedef struct xp_ldv_row {
  uint64_t slice, first_pair, n_pairs;
  uint64_t thread;
} xp_ldv_row;

typedef struct xp_cut_row {
  uint64_t slice, tsc, instructions;
} xp_cut_row;

/* Number of rows of each table of a stream, and how the stream ends. The length of each array of
 * xp_arrays has the array's name; the columns of a list, `<list>_<column>`, have `<list>_pairs`. */
typedef struct xp_counts {
  uint64_t texts; /* bytes */
  uint64_t metas, programs, kernels, gpu_blocks, launches, completes, stamps, vectors, vector_pairs,
      grids, run_pairs, launch_grids, copies, hosts, resources, lanes, uncounted, device_ldvs,
      windows;
  uint64_t images, cpu_blocks, threads, bbvs, bbv_pairs, cuts, ldvs, ldv_pairs;
  uint64_t chunks, bytes, unknown_records;
  uint64_t ended;        /* 1: the last record is END */
  uint64_t end_a, end_b; /* END's two numbers */
} xp_counts;

/* Destination of a stream's rows; every array has exactly the number of rows in xp_counts. */
typedef struct xp_arrays {
  uint8_t *texts;
  xp_meta_row *metas;
  xp_program_row *programs;
  xp_kernel_row *kernels;
  xp_gpu_block_row *gpu_blocks;
  xp_launch_row *launches;
  xp_complete_row *completes;
  xp_stamp_row *stamps;
  xp_vector_row *vectors;
  uint32_t *vector_block; /* row among the GPU blocks */
  uint64_t *vector_count;
  xp_grid_row *grids;
  uint32_t *run_vector;
  uint64_t *run_length;
  xp_launch_grid_row *launch_grids;
  xp_copy_row *copies;
  xp_host_row *hosts;
  xp_resource_row *resources;
  xp_lanes_row *lanes;
  xp_uncounted_row *uncounted;
  xp_device_ldv_row *device_ldvs;
  xp_window_row *windows;
  xp_image_row *images;
  xp_cpu_block_row *cpu_blocks;
  xp_thread_row *threads;
  xp_bbv_row *bbvs;
  uint32_t *bbv_block; /* row among the CPU blocks */
  uint64_t *bbv_count;
  xp_cut_row *cuts;
  xp_ldv_row *ldvs;
  uint32_t *ldv_bucket; /* of ldvs or device_ldvs, which are in different streams */
  uint64_t *ldv_count;
} xp_arrays;

/* Why a stream cannot be read. Messages are made in Python (xpuprof/trace/streams.py). */
enum xp_error_code {
  XP_OK = 0,
  /* the file */
  XP_E_OPEN = 1,      /* a: errno */
  XP_E_READ = 2,      /* a: errno */
  XP_E_MEMORY = 3,    /* a: bytes asked for */
  XP_E_FOREIGN = 4,   /* the first chunk lacks our magic */
  XP_E_VERSION = 5,   /* a: version found */
  XP_E_STREAM = 6,    /* a: stream found, b: stream expected */
  XP_E_TRUNCATED = 7, /* a: bytes the chunk claims, b: bytes the file has left */
  XP_E_CHUNK = 8,     /* a chunk header in the middle is damaged */
  XP_E_CRC = 9,       /* a: CRC stored, b: CRC computed */
  XP_E_NEWER = 10,    /* a: version found, b: newest known */
  XP_E_CHANGED = 11,  /* while it was read */
  /* a record that is not well-formed; a: tag */
  XP_E_RECORD = 20, /* crosses the end of its chunk */
  XP_E_VARINT = 21, /* runs over its record or over 64 bits */
  XP_E_SHORT = 22,  /* body ends early */
  XP_E_EXCESS = 23, /* body is longer than its fields */
  XP_E_LENGTH = 24, /* b: a length that does not fit in what is left */
  XP_E_RANGE = 25,  /* b: a number too large for its column */
  /* ids that do not hold; a: tag, b: the id */
  XP_E_DENSE = 40,   /* ids of a table must count up from 0 */
  XP_E_UNKNOWN = 41, /* refers to something not introduced before */
};

typedef struct xp_error {
  int32_t code; /* enum xp_error_code */
  int32_t reserved;
  uint64_t offset; /* in the file: of the chunk, or of the record */
  uint64_t a, b;
} xp_error;

typedef struct xp_stream_reader xp_stream_reader;

/* Opens a stream and walks it once: checks chunks and record lengths, counts rows. NULL on
 * error. */
xp_stream_reader *xp_stream_open(const char *path, uint32_t stream, xp_counts *counts,
                                 xp_error *error);
/* Decodes the next chunk: 1, 0 after the last one, -1 with `error` set. A table whose array is NULL
 * is left out. Row n of a table goes to place n - `first` of its array, which has `room` places;
 * `rows` is the number of rows so far. texts, programs, kernels and images must be kept from row 0
 * if another array refers to them, and vectors if runs are kept. */
int32_t xp_stream_next(xp_stream_reader *reader, const xp_arrays *arrays, const xp_counts *first,
                       const xp_counts *room, xp_counts *rows, xp_error *error);
/* Back to the first chunk. */
void xp_stream_rewind(xp_stream_reader *reader);
/* The largest number of rows of each table in one chunk. */
void xp_stream_largest(const xp_stream_reader *reader, xp_counts *largest);
void xp_stream_close(xp_stream_reader *reader);

/* The launches that a stream holds so far, while it is written: read from the headers of its chunks
 * alone, from `offset` on, which moves to the last chunk (0 at first). 0 when there is no stream.
 */
uint64_t xp_stream_progress(const char *path, uint64_t *offset);

/* Block identities: see the section "Identity" of xpuprof/trace_format.h. */
uint64_t xp_identity_cpu(const uint8_t *build_id, size_t build_id_size, uint64_t offset,
                         uint64_t instructions);
uint64_t xp_identity_gpu(const uint8_t program_hash[16], const uint8_t *kernel, size_t kernel_size,
                         uint64_t block);

/* The writer of native/runtime, for imports and for tests that drive it without an engine. */
typedef struct xp_stream_writer xp_stream_writer;
xp_stream_writer *xp_stream_create(const char *path, uint32_t stream); /* NULL: errno says why */
/* 0, or -1 when the writer has gone silent. `slice` UINT64_MAX: none. */
int32_t xp_stream_put(xp_stream_writer *writer, uint32_t tag, const uint8_t *body, size_t size,
                      uint64_t slice);
void xp_stream_seal(xp_stream_writer *writer);
void xp_stream_finish(xp_stream_writer *writer);  /* closes normally and frees */
void xp_stream_abandon(xp_stream_writer *writer); /* stops as a killed process does, and frees */

uint32_t xp_checksum(const uint8_t *data, size_t size); /* CRC32C */

/* The time stamp counter. */
uint64_t xp_tsc_now(void);
int32_t xp_tsc_invariant(void);      /* CPUID 0x80000007, EDX bit 8 */
uint64_t xp_tsc_hz_from_cpuid(void); /* leaf 0x15; 0 when the processor does not report it */
/* Reads both clocks at one moment: the TSC between two readings of CLOCK_MONOTONIC_RAW, the
 * narrowest of several tries. Two such pairs give the frequency. */
void xp_clock_pair(uint64_t *tsc, uint64_t *raw_ns);
