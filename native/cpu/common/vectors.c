/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

typedef struct pair {
  uint32_t block;
  uint64_t executions;
} pair;

static pair *pairs;
static size_t n_pairs, pairs_room;

void vector_begin(void) { n_pairs = 0; }

void vector_add(uint32_t block, uint64_t executions) {
  if (!executions) return;
  pairs = grown(pairs, &pairs_room, n_pairs + 1, sizeof *pairs);
  pairs[n_pairs++] = (pair){block, executions};
}

void vector_put(uint32_t thread, uint64_t slice) {
  uint64_t instructions = 0, last = 0;
  if (!n_pairs) return;
  for (size_t i = 0; i < n_pairs; i++)
    instructions += pairs[i].executions * block_instructions(pairs[i].block);
  xp_body record = stream_body((4 + 2 * n_pairs) * XP_VARINT_MAX);
  xp_put_varint(&record, slice);
  xp_put_varint(&record, thread);
  xp_put_varint(&record, n_pairs);
  xp_put_varint(&record, instructions);
  for (size_t i = 0; i < n_pairs; i++) {
    xp_put_varint(&record, pairs[i].block - last);
    xp_put_varint(&record, pairs[i].executions);
    last = pairs[i].block;
  }
  stream_put(XP_CPU_BBV, &record, slice);
  slice_add(instructions);
}
