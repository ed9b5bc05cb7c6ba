/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Children that run in their parent's memory until they execute a program or end: those of vfork
 * and posix_spawn. Valgrind gives them a copy. But posix_spawn's child reports what failed in a
 * variable of its parent, which would see success. So what a child changes in the frames of its
 * parent's stack is written there, too, and the parent waits for it as natively. */
#ifndef XPUPROF_VALGRIND_VFORK_H
#define XPUPROF_VALGRIND_VFORK_H

#include "pub_tool_basics.h"

/* To be called around each system call of the program. */
void vfork_before_call(ThreadId tid, UInt call, const UWord *arguments);
void vfork_after_call(SysRes result);
/* In each child, before it runs. */
void vfork_forked(void);

#endif
