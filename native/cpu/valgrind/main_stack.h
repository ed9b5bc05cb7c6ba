/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_VALGRIND_MAIN_STACK_H
#define XPUPROF_VALGRIND_MAIN_STACK_H

/* Linux learns the limit that the program has set for its stack. */
extern void main_stack_before_exec(void);

#endif
