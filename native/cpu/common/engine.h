/* SPDX-License-Identifier: Apache-2.0 */
/* Common part of the CPU engines in C: options, blocks, vectors, cuts and the stream. Plain C
 * without libc. Callers hold the engine's lock. Each engine provides the functions declared at the
 * end. */
#ifndef XPUPROF_ENGINE_H
#define XPUPROF_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build_id.h"
#include "writer.h"

/* ---- text.c: what a C library would give ----------------------------------------------------- */
/* `array` with room for `need` items; never freed. */
void *enlarged(void *array, size_t *room, size_t need, size_t item);
void *grown(void *array, size_t *room, size_t need, size_t item); /* followed by zeros */
size_t text_length(const char *text);
bool text_equal(const char *a, const char *b);
bool text_starts(const char *text, const char *start);
char *text_copy(const char *text);
const char *file_name(const char *path);                /* behind the last slash */
bool glob_match(const char *pattern, const char *text); /* `*`, `?`, `[abc]` */

/* ---- options.c: what the launcher asks for --------------------------------------------------- */
typedef struct engine_options {
  const char *directory; /* execution folder; NULL: count, but write nothing */
  long supervisor;       /* the root process is the one with this parent; 0: the first process */
  bool main_image_only;
  bool native_start_up;           /* no counts until the first launch */
  bool memory;                    /* LRU stack distances of data accesses */
  bool has_window, window_closed; /* the profile's; closed at the start */
  const char *translations;       /* folder of those kept between runs; NULL: none are */
  bool raw_clock;                 /* stamps are CLOCK_MONOTONIC_RAW's, not the TSC's */
} engine_options;

extern engine_options options;

/* One option, `name=value`, which must outlive the engine; false if unknown. */
bool option_take(const char *text);
bool option_counts_image(const char *path, bool is_main);
bool option_filters_routines(void);
bool option_counts_routine(const char *name);
bool option_counts_thread(uint32_t number);
bool option_filters_processes(void);
bool option_counts_process(const char *path);
const char *option_filters(void); /* active filters, as one line */

/* ---- images.c: files that code comes from, as they are in the stream ------------------------- */
enum { NO_IMAGE = 0xffffffff };

typedef struct code_place {
  uint32_t image;  /* NO_IMAGE: the code does not count */
  bool in_file;    /* `offset` is valid; else the code is identified by its bytes */
  uint64_t offset; /* from the image's load base */
} code_place;

uint32_t image_new(const char *build_id, const char *path);
code_place place_of_no_image(void); /* of code that is in no file */
size_t images_known(void);
void images_emit(size_t first); /* records of images first.. */

/* ---- blocks.c: identity of basic blocks ------------------------------------------------------ */
/* Maximum number of blocks: it sizes the per-thread reservations (memory is committed when
 * touched). */
enum { MAX_BLOCKS = 1 << 22, NO_BLOCK = 0xffffffff };

/* The dense id of the block of `bytes` bytes at `start`. */
uint32_t block_of(code_place place, const void *start, size_t bytes, uint32_t instructions);
size_t blocks_known(void);
uint32_t block_instructions(uint32_t id);
void blocks_emit(size_t first);

/* Blocks that share a dirty mark. A cut scans only marked groups; 32 counters are four cache lines,
 * and 100,000 known blocks take 3 KiB of marks. */
enum { GROUP = 32 };

/* ---- vectors.c ------------------------------------------------------------------------------- */
void vector_begin(void);
void vector_add(uint32_t block, uint64_t executions); /* blocks ascend; 0 adds nothing */
void vector_put(uint32_t thread, uint64_t slice);     /* writes nothing when nothing was added */

/* ---- numbers.c: threads that count, in order of creation ------------------------------------- */
uint32_t number_new(void);
void number_not_used(uint32_t number); /* its thread was not created */
void number_started(uint32_t number, long system_id);
void numbers_forked(void); /* all thread numbers are invalid */
size_t numbers_known(void);
void numbers_emit(size_t first);

/* ---- cuts.c: slices -------------------------------------------------------------------------- */
void cut(uint64_t slice);
void cut_last(void);   /* the end of the process */
void cut_forked(void); /* in a forked child */
uint64_t slice_under_way(void);
void slice_add(uint64_t instructions);
void emit_known(void); /* images, blocks and threads missing from the stream */

/* ---- stream.c: cpu.xpt ----------------------------------------------------------------------- */
bool stream_is_open(void);
void stream_open(void); /* no-op when open, or without a folder */
void stream_put(uint8_t tag, const xp_body *record, uint64_t slice);
void stream_close(void);
void stream_forget(void); /* in a forked child */
/* No further slices rather than wrong ones. */
void stream_give_up(const char *reason);
/* What this process could not record, for the run: the three texts in one. */
void stream_lacks(const char *before, const char *what, const char *after);
/* The rest of the root process runs natively: it executed `what`. */
void stream_runs_natively(const char *what);
xp_body stream_body(size_t room);

/* ---- what each engine provides --------------------------------------------------------------- */
extern const char *const engine_name, *const engine_version;
extern const xp_os *const engine_os;
const char *engine_hidden_isa(void); /* instruction sets hidden from the program */
void *engine_allocate(size_t size);
void engine_free(void *memory, size_t size);
char *engine_environment(const char *name); /* NULL: not set */
void threads_flush(uint64_t slice);         /* BBV records of all code run since the last flush */
uint64_t threads_total(void); /* instructions of the whole run, from counters never reset */

#endif
