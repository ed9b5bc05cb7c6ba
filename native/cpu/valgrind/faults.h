/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_FAULTS_H
#define XPUPROF_FAULTS_H

#include "pub_tool_basics.h"

/* Whether translations have all registers up to date at each memory access. */
Bool faults_are_handled(void);
void faults_after_call(UInt call, const UWord *arguments);

#endif
