/* SPDX-License-Identifier: Apache-2.0 */
/* LRU stack distances: for each access, the number of other lines touched since its line was last
 * touched. Exact. Plain C, no libc: the heap is a parameter, so the Valgrind tool and the device
 * layers share the code. Not thread-safe: callers lock.
 *
 * The stack is kept in two parts. The most recent lines are in a short move-to-front array, where
 * nearly all accesses end. A line that falls out of it gets the next slot of a Fenwick tree, which
 * counts the lines in younger slots in logarithmic time; slots are renumbered when they run out. */
#ifndef XPUPROF_STACK_DISTANCE_H
#define XPUPROF_STACK_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "xpuprof/trace_format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xp_heap {
  void *(*zeroed)(size_t size); /* NULL when out of memory */
  void (*release)(void *block); /* NULL is allowed */
} xp_heap;

enum { XP_STACK_FRONT = 16 };

typedef struct xp_stack_entry {
  uint64_t line; /* + 1, so that 0 marks a free entry */
  uint32_t slot; /* 0: in the front */
} xp_stack_entry;

typedef struct xp_stack {
  const xp_heap *heap;
  uint32_t most;   /* minimum number of lines remembered; 0: all */
  uint32_t forgot; /* 1: some lines were forgotten and count as never touched */
  uint32_t failed; /* 1: out of memory; distances are no longer known */
  uint32_t front_used;
  uint64_t front[XP_STACK_FRONT]; /* most recent first */
  xp_stack_entry *table;          /* every line in the stack; open addressing */
  uint32_t table_used, table_room;
  uint32_t *tree;      /* Fenwick: live slots */
  uint64_t *slot_line; /* by slot, from 1 */
  uint32_t slots_used, slots_room, live;
} xp_stack;

/* An empty stack; `most` as above. */
void xp_stack_init(xp_stack *stack, const xp_heap *heap, uint32_t most);
void xp_stack_clear(xp_stack *stack); /* frees its memory; init makes it usable again */

/* Touches a line; returns its bucket as in LDV records. `line` is any number below 2^64 - 1. */
unsigned xp_stack_touch(xp_stack *stack, uint64_t line);

#ifdef __cplusplus
}
#endif
#endif
