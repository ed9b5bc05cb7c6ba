/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* What the program sees of the processor; see host_cpu.c. `shadow_state` is the offset of the first
 * shadow state. */
#ifndef XPUPROF_HOST_CPU_H
#define XPUPROF_HOST_CPU_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "tool.h"

Bool host_has_avx(void);
/* At the start of a block: the thread enters PoCL, or the loader between it and the program. */
void note_caller(IRSB *sb, image_role role, Int shadow_state);
void choose_cpuid(IRDirty *call, image_role role);
void add_xgetbv(IRSB *sb, image_role role);
/* What stands for statement `s`, whose helper may read or write MXCSR. */
IRStmt *follow_mxcsr(IRSB *sb, IRStmt *s, Int shadow_state);
UInt mxcsr_flushes(ThreadId tid);

#endif
