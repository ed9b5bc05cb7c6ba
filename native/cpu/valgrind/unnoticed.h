/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_UNNOTICED_H
#define XPUPROF_UNNOTICED_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

void unnoticed_after_request(CorePart part, ThreadId tid, PtrdiffT offset, SizeT size);

#endif
