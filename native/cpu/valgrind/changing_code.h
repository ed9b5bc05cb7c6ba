/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_CHANGING_CODE_H
#define XPUPROF_CHANGING_CODE_H

#include "libvex.h"

/* The translation to be made compares itself with its code at each use, if that may change. */
void changing_code_compare(VexTranslateArgs *args);

#endif
