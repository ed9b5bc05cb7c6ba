/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* Slices: every cut writes what all threads executed since the one before. */
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "tool.h"
#include "xpuprof/boundary.h"

static ULong slice;
static ULong slice_instructions; /* of the slice under way, as far as written */
static struct {
  UInt images, blocks, threads;
} emitted;

ULong slice_under_way(void) { return slice; }

void slice_add(ULong instructions) { slice_instructions += instructions; }

/* The run's clock, as xpu_tsc() reads it. */
static ULong tsc(void) {
  static Int raw = -1;
  if (raw < 0) {
    const HChar *clock = VG_(getenv)(XPU_ENV_CLOCK);
    raw = clock && !VG_(strcmp)(clock, "monotonic_raw");
  }
  if (raw) {
    struct vki_timespec now;
    enum { MONOTONIC_RAW = 4 };
    Word result = __NR_clock_gettime;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(MONOTONIC_RAW), "S"(&now)
                     : "rcx", "r11", "memory");
    return (ULong)now.tv_sec * 1000000000u + (ULong)now.tv_nsec;
  }
  UInt low, high;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high) : : "rcx");
  return (ULong)high << 32 | low;
}

void emit_known(void) {
  images_emit(emitted.images);
  blocks_emit(emitted.blocks);
  threads_emit(emitted.threads);
  emitted.images = images_known();
  emitted.blocks = blocks_known();
  emitted.threads = threads_known();
}

void cut(ULong ending) {
  stream_open();
  if (!stream_is_open()) return;
  emit_known();
  slice = ending;
  threads_flush(slice);
  xp_body record = stream_body(2 * XP_VARINT_MAX + 8);
  xp_put_varint(&record, slice);
  xp_put_u64(&record, tsc());
  xp_put_varint(&record, slice_instructions);
  stream_put(XP_CPU_CUT, &record, slice);
  slice++;
  slice_instructions = 0;
}

void cut_last(void) {
  cut(slice);
  if (!stream_is_open()) return;
  xp_body record = stream_body(2 * XP_VARINT_MAX);
  xp_put_varint(&record, slice);
  xp_put_varint(&record, threads_total());
  stream_put(XP_CPU_END, &record, XP_NO_SLICE);
  stream_close();
}

void cut_forked(void) {
  slice = slice_instructions = 0;
  emitted.images = emitted.blocks = emitted.threads = 0;
}
