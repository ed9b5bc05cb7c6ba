/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The lock under which translated code runs; see lock.c. */
#ifndef XPUPROF_LOCK_H
#define XPUPROF_LOCK_H

#include "pub_tool_basics.h"

/* Whether another thread waits for it; asked by the thread that holds it. */
Bool lock_is_wanted(void);

#endif
