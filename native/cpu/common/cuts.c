/* SPDX-License-Identifier: Apache-2.0 */
/* Slices: every cut writes what all threads executed since the previous one. */
#include "clock.h"
#include "engine.h"

static uint64_t slice;
static uint64_t slice_instructions; /* of the current slice, as far as written */
static struct {
  size_t images, blocks, numbers;
} emitted;

uint64_t slice_under_way(void) { return slice; }

void slice_add(uint64_t instructions) { slice_instructions += instructions; }

void emit_known(void) {
  images_emit(emitted.images);
  blocks_emit(emitted.blocks);
  numbers_emit(emitted.numbers);
  emitted.images = images_known();
  emitted.blocks = blocks_known();
  emitted.numbers = numbers_known();
}

void cut(uint64_t ending) {
  stream_open();
  if (!stream_is_open()) return;
  emit_known();
  slice = ending;
  threads_flush(slice);
  xp_body record = stream_body(2 * XP_VARINT_MAX + 8);
  xp_put_varint(&record, slice);
  xp_put_u64(&record, xp_clock(options.raw_clock));
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
  emitted.images = emitted.blocks = emitted.numbers = 0;
}
