/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

static long *system_ids; /* by number; 0 until the thread has started */
static size_t n_numbers, room;

uint32_t number_new(void) {
  system_ids = grown(system_ids, &room, n_numbers + 1, sizeof *system_ids);
  system_ids[n_numbers] = 0;
  return (uint32_t)n_numbers++;
}

void number_not_used(uint32_t number) {
  if (number + 1 == n_numbers) n_numbers--;
}

void number_started(uint32_t number, long system_id) { system_ids[number] = system_id; }

void numbers_forked(void) { n_numbers = 0; }

size_t numbers_known(void) { return n_numbers; }

void numbers_emit(size_t first) {
  for (size_t number = first; number < n_numbers; number++) {
    xp_body record = stream_body(2 * XP_VARINT_MAX);
    xp_put_varint(&record, number);
    xp_put_varint(&record, (uint64_t)system_ids[number]);
    stream_put(XP_CPU_THREAD, &record, XP_NO_SLICE);
  }
}
