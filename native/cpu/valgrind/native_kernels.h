/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Kernels that run natively; see native_kernels.c. */
#ifndef XPUPROF_NATIVE_KERNELS_H
#define XPUPROF_NATIVE_KERNELS_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

void kernels_init(void);
void kernels_thread_created(ThreadId tid);
/* The runtime has generated kernels in memory; see xpu_kernels_loaded(). */
void kernels_loaded(Bool compute_only);
/* If `code` is a kernel's entry, puts the call of it in place of the instruction. */
Bool kernel_translate(IRSB *sb, Addr code);
/* The thread leaves translated code. */
void kernels_left(ThreadId tid, ULong blocks_done);

#endif
