/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_VALGRIND_PROGRAM_NAME_H
#define XPUPROF_VALGRIND_PROGRAM_NAME_H

#include "pub_tool_basics.h"

/* Whether it is our option, which is then taken. */
Bool program_name_take(const HChar *argument);
/* Before the first instruction of the process. */
void program_name_give(ThreadId tid);
/* Replaces our option among those of the launcher by one with the name that the program's call
 * gives. */
void program_name_pass(const HChar **options, const HChar **end);

#endif
