/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

#include "pub_tool_debuginfo.h"
#include "tool.h"

UInt block_id(Addr start, UInt bytes, UInt instructions) {
  if (option_filters_routines()) {
    const HChar *routine = "";
    VG_(get_fnname)(VG_(current_DiEpoch)(), start, &routine);
    if (!option_counts_routine(routine)) return NO_BLOCK;
  }
  return block_of(image_place(start), (const void *)start, bytes, instructions);
}
