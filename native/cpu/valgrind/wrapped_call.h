/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The core's functions that check a system call before it is made, replaced at link time. The types
 * are those of its priv_types_n_macros.h, as far as we use them. */
#ifndef XPUPROF_WRAPPED_CALL_H
#define XPUPROF_WRAPPED_CALL_H

#include "pub_tool_basics.h"

typedef struct call_arguments {
  Word number;
  UWord arguments[8];
} call_arguments;

typedef void before_call(ThreadId, const void *layout, call_arguments *, void *status,
                         UWord *flags);

enum { MAY_BLOCK = 1 << 1, POLL_AFTER = 1 << 3 };

#endif
