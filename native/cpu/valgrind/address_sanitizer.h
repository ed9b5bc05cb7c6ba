/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_VALGRIND_ADDRESS_SANITIZER_H
#define XPUPROF_VALGRIND_ADDRESS_SANITIZER_H

#include "pub_tool_basics.h"

/* Whether the program at `path` was built with it (-fsanitize=address). */
extern Bool has_address_sanitizer(const HChar *path);

#endif
