/* Slices: every cut writes what all threads executed since the one before. */
#include <sys/syscall.h>
#include <x86intrin.h>

#include "client.h"

static uint64_t slice;
static uint64_t slice_instructions; /* of the slice under way, as far as written */
static struct {
  size_t images, blocks, threads;
} emitted;

uint64_t slice_under_way(void) { return slice; }

void slice_add(uint64_t instructions) { slice_instructions += instructions; }

/* The run's clock, as xpu_tsc() reads it. */
static uint64_t tsc(void) {
  unsigned aux;
  if (!options.raw_clock) return __rdtscp(&aux);
  enum { MONOTONIC_RAW = 4 };
  uint64_t now[2] = {0, 0};
  system_call(SYS_clock_gettime, MONOTONIC_RAW, (long)now, 0, 0);
  return now[0] * 1000000000u + now[1];
}

void emit_known(void) {
  images_emit(emitted.images);
  blocks_emit(emitted.blocks);
  threads_emit(emitted.threads);
  emitted.images = images_known();
  emitted.blocks = blocks_known();
  emitted.threads = threads_known();
}

void cut(uint64_t ending) {
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
  threads_mark_all();
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
