/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_UNKNOWN_INSTRUCTIONS_H
#define XPUPROF_UNKNOWN_INSTRUCTIONS_H

#include "pub_tool_basics.h"

/* Valgrind's own: SIGILL for an instruction that the processor itself refused. */
extern void __real_vgPlain_synth_sigill(ThreadId, Addr);

/* The process ends by this signal: the run tells of the unknown instruction that raised it. */
void unknown_instruction_ends(Int signal);

#endif
