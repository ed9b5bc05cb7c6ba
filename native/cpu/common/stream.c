/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.xpt, written by the common writer. The stream is opened at the process's first cut (or at the
 * end of the root process), so processes without device work, and the images of a process that only
 * execs another, leave no trace. Earlier records (vectors of ended threads) wait in memory. */
#include <asm/unistd.h>

#include "engine.h"
#include "system_call.h"
#include "xpuprof/boundary.h"
#include "xpuprof/part.h"

static xp_writer stream;
static xp_place place;
static const char *given_up; /* why, before the stream was opened */
static bool tried;           /* to open; done once per process */

/* ---- records that wait for the stream -------------------------------------------------------- */

typedef struct waiting_record {
  struct waiting_record *next;
  uint64_t slice;
  size_t size;
  uint8_t tag;
  uint8_t body[];
} waiting_record;

static waiting_record *waiting, **waiting_end = &waiting;

static void wait(uint8_t tag, const xp_body *record, uint64_t slice) {
  waiting_record *w = engine_allocate(sizeof *w + record->size);
  *w = (waiting_record){NULL, slice, record->size, tag};
  __builtin_memcpy(w->body, record->data, record->size);
  *waiting_end = w;
  waiting_end = &w->next;
}

static void drain(bool write) {
  while (waiting) {
    waiting_record *w = waiting;
    waiting = w->next;
    xp_body record = {w->body, w->size, w->size, 0};
    if (write) xp_writer_put(&stream, w->tag, &record, w->slice);
    engine_free(w, sizeof *w + w->size);
  }
  waiting_end = &waiting;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void put_meta(const char *key, const char *value) {
  xp_body record = stream_body(text_length(key) + text_length(value) + 2 * XP_VARINT_MAX);
  xp_put_str(&record, key);
  xp_put_str(&record, value);
  xp_writer_put(&stream, XP_CPU_META, &record, XP_NO_SLICE);
}

static void put_process(void) {
  char digits[XP_DECIMAL_MAX];
  put_meta("pid", xp_decimal(digits, (unsigned)xp_system_call(__NR_getpid, 0, 0, 0, 0)));
}

static void find_place(void) {
  place = (xp_place){options.directory, xp_rank(engine_environment),
                     engine_environment(XPU_ENV_FAILURES)};
}

void stream_open(void) {
  if (tried || !options.directory) return;
  tried = true;
  find_place();
  if (given_up)
    xp_place_failure(&place, given_up);
  else
    xp_writer_open(&stream, engine_os, &place, XP_STREAM_CPU);
  put_process();
  if (place.rank) put_meta("rank", place.rank);
  put_meta("engine", engine_name);
  put_meta("engine_version", engine_version);
  put_meta("hidden_isa", engine_hidden_isa());
  put_meta("filters", option_filters());
  if (options.native_start_up) put_meta("start_up", "native");
  emit_known();
  drain(true);
}

bool stream_is_open(void) { return stream.is_open; }

void stream_put(uint8_t tag, const xp_body *record, uint64_t slice) {
  if (stream_is_open())
    xp_writer_put(&stream, tag, record, slice);
  else if (!tried && !given_up && options.directory)
    wait(tag, record, slice);
}

void stream_close(void) { xp_writer_close(&stream); }

void stream_forget(void) {
  xp_writer_abandon(&stream);
  drain(false);
  tried = false;
}

void stream_give_up(const char *reason) {
  given_up = reason;
  xp_writer_fail(&stream, reason);
}

void stream_lacks(const char *before, const char *what, const char *after) {
  xp_body line = stream_body(256);
  xp_put_bytes(&line, before, text_length(before));
  xp_put_bytes(&line, what, text_length(what));
  xp_put_bytes(&line, after, text_length(after) + 1); /* and the zero */
  if (!options.directory || line.overflow) return;
  find_place();
  xp_place_failure(&place, (const char *)line.data);
}

void stream_runs_natively(const char *what) {
  stream_lacks("its CPU work: it executed ", what, ", which runs natively");
}

xp_body stream_body(size_t room) {
  static uint8_t *scratch;
  static size_t scratch_room;
  xp_body record;
  if (room > scratch_room) scratch = grown(scratch, &scratch_room, room, 1);
  xp_body_init(&record, scratch, scratch_room);
  return record;
}
