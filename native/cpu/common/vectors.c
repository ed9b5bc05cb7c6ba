/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

/* A record's numbers before its pairs are known after them only: room for these lies in front. */
enum { HEAD = 4 * XP_VARINT_MAX, PAIR = 2 * XP_VARINT_MAX };

static xp_body vector;
static uint64_t n_pairs, instructions, last;

void vector_begin(void) {
  vector.size = HEAD;
  n_pairs = instructions = last = 0;
}

void vector_add(uint32_t block, uint64_t executions) {
  if (!executions) return;
  vector.data = enlarged(vector.data, &vector.room, vector.size + PAIR, 1);
  xp_put_varint(&vector, block - last);
  xp_put_varint(&vector, executions);
  last = block;
  n_pairs++;
  instructions += executions * block_instructions(block);
}

void vector_put(uint32_t thread, uint64_t slice) {
  if (!n_pairs) return;
  uint8_t bytes[HEAD];
  xp_body head;
  xp_body_init(&head, bytes, sizeof bytes);
  xp_put_varint(&head, slice);
  xp_put_varint(&head, thread);
  xp_put_varint(&head, n_pairs);
  xp_put_varint(&head, instructions);
  uint8_t *start = vector.data + HEAD - head.size;
  __builtin_memcpy(start, bytes, head.size);
  const size_t size = vector.size - HEAD + head.size;
  xp_body record = {start, size, size, 0};
  stream_put(XP_CPU_BBV, &record, slice);
  slice_add(instructions);
}
