/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_LEFT_SIGNALS_H
#define XPUPROF_LEFT_SIGNALS_H

#include "pub_tool_basics.h"

/* Whether the kernel acts on this signal, which the program leaves as it is. */
Bool signal_is_left(Int signal);

/* In our handler: whether it has come for a signal that is the kernel's, which acts on it once the
 * handler returns. */
Bool left_signal_returns(Int signal);

/* The program may handle such a signal from this call on, or no longer. */
void left_signals_after_call(UInt call, const UWord *arguments);

#endif
