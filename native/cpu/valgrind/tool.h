/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The parts of the tool and their interfaces. Everything runs under Valgrind's big lock, so no part
 * needs its own locks. */
#ifndef XPUPROF_TOOL_H
#define XPUPROF_TOOL_H

#include "engine.h"
#include "pub_tool_basics.h"
#include "xpuprof/nesting.h"

/* ---- main.c ---------------------------------------------------------------------------------- */
Bool process_is_root(void); /* the process started by the user */

/* ---- images.c: files that code comes from ---------------------------------------------------- */
code_place image_place(Addr code);
Bool image_is_program(Addr code); /* it lies in a program's or a library's file */

/* What a file is to a device that is this processor. */
typedef enum image_role {
  ROLE_NONE,
  ROLE_LOADER,   /* between the program and the device runtimes: the OpenCL loader, our layer */
  ROLE_POCL,     /* the device runtime */
  ROLE_COMPILER, /* libraries that it asks about the processor */
  ROLE_INTEL,    /* a runtime that generates its kernels in memory */
} image_role;

image_role image_role_of(Addr code);
/* PoCL was found to call its kernels by entries that image_is_kernel_entry() knows. */
Bool kernels_are_known(void);
Bool image_is_kernel_entry(Addr code);
/* `code` was generated, and Intel's runtime has just called it. */
Bool image_calls_kernel(Addr code, Addr stack);

/* The image whose translation at `code` may serve other runs, too, or NO_IMAGE; whether it counts.
 */
UInt image_to_keep(Addr code, Bool *counts);
/* What its translations depend on, beside the code. */
enum { IMAGE_KEY_ROOM = BUILD_ID_ROOM + 4 };
void image_key(UInt number, HChar key[IMAGE_KEY_ROOM]);

/* ---- placement.c: where libraries are mapped --------------------------------------------------
 */
Bool is_free(Addr start, SizeT size); /* nor reserved for what grows */

/* ---- instrument.c ---------------------------------------------------------------------------- */
struct _IRSB;
extern Bool fma_was_hidden;
/* Offset of the running thread's counters in the guest's first shadow state. */
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
void threads_forked(ThreadId survivor);

/* ---- window.c: when and where is counted ------------------------------------------------------
 */
void window_init(void);
void window_turn(Bool open, Bool for_good);
Bool window_is_open(void);
Bool window_adds_counters(void); /* in the code being translated */
Bool window_excludes_process(void);

/* ---- memory.c: LRU stack distances ----------------------------------------------------------- */
typedef struct distances distances;

distances *memory_new(void);
void memory_free(distances *d);
void memory_switch(distances *d); /* the running thread; NULL: it does not count */
void memory_access(Addr address, UWord size);
void memory_reset(distances *d);
void memory_flush(distances *d, UInt thread, ULong slice);

/* ---- os.c ------------------------------------------------------------------------------------ */
void log_drop_empty(void); /* removes this process's log if empty */
void log_hide(void);       /* from the program */

#endif
