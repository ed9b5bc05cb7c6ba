/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_DESCRIPTOR_LIMIT_H
#define XPUPROF_DESCRIPTOR_LIMIT_H

void descriptor_limit_before_exec(void);
void descriptor_limit_after_failed_exec(void);

#endif
