/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_VALGRIND_DATA_SEGMENT_H
#define XPUPROF_VALGRIND_DATA_SEGMENT_H

#include "pub_tool_basics.h"

/* Before a system call of the program's. */
extern void data_segment_before_call(UInt call, const UWord *arguments);

#endif
