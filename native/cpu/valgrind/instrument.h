/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

#ifndef XPUPROF_INSTRUMENT_H
#define XPUPROF_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                 IRType host_word);

#endif
