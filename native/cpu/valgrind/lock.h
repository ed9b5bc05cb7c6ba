/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The lock under which translated code runs; see lock.c. */
#ifndef XPUPROF_LOCK_H
#define XPUPROF_LOCK_H

#include "pub_tool_basics.h"

/* Of Valgrind's core: takes the lock for a thread, and gives it up. */
typedef enum { WAITING = 3 } thread_status; /* VgTs_WaitSys */
extern void VG_(acquire_BigLock)(ThreadId, const HChar *);
extern void VG_(release_BigLock)(ThreadId, thread_status, const HChar *);

/* Whether another thread waits for it; asked by the thread that holds it. */
Bool lock_is_wanted(void);

#endif
