/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Where translated code lets other threads run; see hand_over.c. */
#ifndef XPUPROF_HAND_OVER_H
#define XPUPROF_HAND_OVER_H

#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* Sets where the program goes on. Returns whether the scheduler must look first, as at the end of
 * the thread's time slice: then it has set host_EvC_COUNTER to -1. */
typedef UWord call_out(VexGuestAMD64State *, Addr code);

/* Ends the block with a call of `function`. */
void add_call_out(IRSB *sb, call_out *function, Addr code);
/* The running thread lets others run translated code, and waits for its turn. */
void lock_hand_over(ThreadId tid);
void lock_take_back(ThreadId tid);
/* The same where it already has the lock again. */
void enter_translated_code(ThreadId tid);
/* Puts a call that lets other threads run in place of PAUSE, just translated. */
void pause_translate(IRSB *sb, Addr next);

#endif
