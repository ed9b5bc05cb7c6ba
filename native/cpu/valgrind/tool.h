/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* The parts of the tool and what they tell each other. Everything runs under Valgrind's big lock:
 * no part needs locks of its own. */
#ifndef XPUPROF_TOOL_H
#define XPUPROF_TOOL_H

#include "pub_tool_basics.h"
#include "writer.h"

/* Blocks known at most: it sizes the per-thread reservations (memory is committed when touched). */
enum { MAX_BLOCKS = 1 << 22 };

/* Blocks that share a dirty mark. A cut looks only into marked groups; 32 counters are four cache
 * lines, and 100,000 known blocks make 3 KiB of marks. */
enum { GROUP = 32 };

/* ---- options.c: what the command line says --------------------------------------------------- */
typedef struct tool_options {
  const HChar *directory; /* execution folder; NULL: count, but write nothing */
  Int supervisor;         /* the root process is the one with this parent; 0: the first process */
  Bool main_image_only;
  Bool memory;        /* LRU stack distances of data accesses */
  Bool window_closed; /* the profile's window is not open at the start */
} tool_options;

extern tool_options options;

Bool option_parse(const HChar *argument);
void option_usage(void);
Bool option_counts_image(const HChar *path, Bool is_main);
Bool option_filters_routines(void);
Bool option_counts_routine(const HChar *name);
Bool option_counts_thread(UInt number);
Bool option_counts_process(const HChar *path);
/* The filters in effect as one line, "" for none. */
const HChar *option_filters(void);

/* ---- main.c ---------------------------------------------------------------------------------- */
Bool process_is_root(void); /* the one that the user started */

/* ---- images.c: files that code comes from ---------------------------------------------------- */
enum { NO_IMAGE = 0xffffffff };

typedef struct code_place {
  UInt image;   /* NO_IMAGE: the code counts for nothing */
  Bool in_file; /* then `offset` holds; else the code must be identified by its bytes */
  ULong offset; /* from the image's load base */
} code_place;

code_place image_place(Addr code);
void images_emit(UInt first); /* records of images first.. */
UInt images_known(void);

ULong hash_bytes(const UChar *data, SizeT size, ULong seed);
#define HASH_SEED 0xcbf29ce484222325ULL

/* ---- blocks.c: identity of basic blocks ------------------------------------------------------ */
enum { NO_BLOCK = 0xffffffff };

/* The dense id of the block of `instructions` that starts at `start` and takes `bytes`. */
UInt block_id(Addr start, UInt bytes, UInt instructions);
UInt blocks_known(void);
UInt block_instructions(UInt id);
void blocks_emit(UInt first);

/* ---- instrument.c ---------------------------------------------------------------------------- */
struct _IRSB;
extern Bool fma_was_hidden;
/* Where in the guest's first shadow state the running thread's counters are found. */
Int counters_shadow_offset(void);

/* ---- threads.c: counters of threads ---------------------------------------------------------- */
void threads_init(void);
void thread_created(ThreadId creator, ThreadId tid);
void thread_first_instruction(ThreadId tid);
void thread_exits(ThreadId tid);
void thread_runs(ThreadId tid, ULong blocks_done);
void thread_enter(ThreadId tid, Bool count); /* device runtime (False) or callback (True) */
void thread_leave(ThreadId tid);
Bool thread_is_off(ThreadId tid);
void threads_flush(ULong slice); /* BBV records of whatever ran since the last flush */
ULong threads_total(void);       /* instructions of the whole run, from counters never reset */
void threads_emit(UInt first);
UInt threads_known(void);
void threads_forked(ThreadId survivor);

/* ---- window.c: when and where is counted ------------------------------------------------------
 */
void window_init(void);
void window_turn(Bool open, Bool for_good);
Bool window_is_open(void);
Bool window_adds_counters(void); /* to what is translated now */
Bool window_excludes_process(void);

/* ---- memory.c: LRU stack distances ----------------------------------------------------------- */
typedef struct distances distances;

distances *memory_new(void);
void memory_free(distances *d);
void memory_switch(distances *d); /* the thread that runs; NULL: it does not count */
void memory_access(Addr address, UWord size);
void memory_reset(distances *d);
void memory_flush(distances *d, UInt thread, ULong slice);

/* ---- cuts.c: slices -------------------------------------------------------------------------- */
void cut(ULong slice);
void cut_last(void);   /* the end of the process */
void cut_forked(void); /* in a forked child */
ULong slice_under_way(void);
void slice_add(ULong instructions);
void emit_known(void); /* images, blocks and threads that the stream does not hold yet */

/* ---- stream.c: cpu.xpt ----------------------------------------------------------------------- */
Bool stream_is_open(void);
void stream_open(void); /* no-op when open, or without a folder */
void stream_put(UChar tag, const xp_body *record, ULong slice);
void stream_close(void);
void stream_forget(void);                 /* in a forked child */
void stream_missing(const HChar *reason); /* the rest of the root process runs natively */
void stream_give_up(const HChar *reason); /* better no further slices than wrong ones */
xp_body stream_body(SizeT room);
void log_drop_empty(void); /* removes this process's log when there is nothing in it */

#endif
