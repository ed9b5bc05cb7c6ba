/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* LRU stack distances of data accesses (option --memory): for each access of a thread, the number
 * of other lines the thread touched since it last touched this one (stack_distance.h). The stack
 * lives as long as the thread, since warm-up has to restore it. */
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "stack_distance.h"
#include "tool.h"

enum { LINE_BITS = 6 };

struct distances {
  xp_stack stack;
  ULong histogram[XP_LDV_BUCKETS];
};

static distances *current; /* of the running thread; NULL while it does not count */

static void *zeroed(SizeT size) { return VG_(calloc)("xpuprof.memory", 1, size); }

static void release(void *block) { VG_(free)(block); }

static const xp_heap heap = {zeroed, release};

distances *memory_new(void) {
  distances *d = zeroed(sizeof *d);
  xp_stack_init(&d->stack, &heap, 0);
  return d;
}

void memory_free(distances *d) {
  if (current == d) current = NULL;
  if (!d) return;
  xp_stack_clear(&d->stack);
  release(d);
}

void memory_switch(distances *d) { current = d; }

/* Called from the instrumented code. An access that crosses lines touches each line. */
void memory_access(Addr address, UWord size) {
  if (!current) return;
  ULong last = (address + size - 1) >> LINE_BITS;
  for (ULong line = address >> LINE_BITS; line <= last; line++)
    current->histogram[xp_stack_touch(&current->stack, line)]++;
}

/* ---- records --------------------------------------------------------------------------------- */

void memory_reset(distances *d) { VG_(memset)(d->histogram, 0, sizeof d->histogram); }

void memory_flush(distances *d, UInt thread, ULong slice) {
  UInt n = 0, last = 0;
  for (UInt b = 0; b < XP_LDV_BUCKETS; b++) n += d->histogram[b] != 0;
  if (!n) return;
  xp_body record = stream_body((3 + 2 * (SizeT)n) * XP_VARINT_MAX);
  xp_put_varint(&record, slice);
  xp_put_varint(&record, thread);
  xp_put_varint(&record, n);
  for (UInt b = 0; b < XP_LDV_BUCKETS; b++) {
    if (!d->histogram[b]) continue;
    xp_put_varint(&record, b - last);
    xp_put_varint(&record, d->histogram[b]);
    last = b;
  }
  stream_put(XP_CPU_LDV, &record, slice);
  memory_reset(d);
}
