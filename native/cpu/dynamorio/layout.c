/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory lies. DynamoRIO keeps an operand relative to the instruction pointer if its address
 * is at most 2 GB below the end of the code cache or of the program's file. Else it loads the
 * address into a register, which it saves and restores: device kernels with many constants took
 * twice their time. So our launcher puts the code cache above the libraries where it can, and here
 * they are kept from being mapped above it. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

enum { SMALL_GAP = 1 << 24 };

static long map_nothing(uint64_t at, size_t size, int protection, int flags) {
  return xp_system_call6(SYS_mmap, (long)at, (long)size, protection,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

/* Takes the small gaps above this client, which lies in the memory for the code cache. */
void layout_init(void) {
  dr_mem_info_t part;
  byte *at = (byte *)(uintptr_t)layout_init;
  for (; dr_query_memory_ex(at, &part); at = part.base_pc + part.size) {
    if (part.type != DR_MEMTYPE_FREE) continue;
    if (part.size > SMALL_GAP) break;
    map_nothing((uint64_t)part.base_pc, part.size, PROT_NONE, MAP_FIXED_NOREPLACE);
  }
}

/* Counters lie far below all libraries. */
void *reserve(size_t size) {
  static const uint64_t AWAY = 1ull << 38, ALIGNED = ~0xfffffull;
  static uint64_t last;
  if (!last) last = (uint64_t)__builtin_frame_address(0) - AWAY;
  last = (last - size) & ALIGNED;
  long at = map_nothing(last, size, PROT_READ | PROT_WRITE, 0);
  return call_failed(at) ? NULL : (void *)at;
}
