/* cpu.xpt, written by the common writer. The stream is opened at the process's first cut (or at
 * the end of the root process), so that processes without device work, and the images of a process
 * that only execs another, leave nothing behind. Records that come earlier (vectors of threads that
 * ended) wait in memory. */
#include "client.h"
#include "xpuprof/boundary.h"
#include "xpuprof/part.h"

static xp_writer stream;
static xp_place place;
static bool tried; /* to open; it is done once a process */

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
  waiting_record *w = dr_global_alloc(sizeof *w + record->size);
  *w = (waiting_record){NULL, slice, record->size, tag};
  for (size_t i = 0; i < record->size; i++) w->body[i] = record->data[i];
  *waiting_end = w;
  waiting_end = &w->next;
}

static void drain(bool write) {
  while (waiting) {
    waiting_record *w = waiting;
    waiting = w->next;
    xp_body record = {w->body, w->size, w->size, 0};
    if (write) xp_writer_put(&stream, w->tag, &record, w->slice);
    dr_global_free(w, sizeof *w + w->size);
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

void stream_open(void) {
  char digits[24];
  if (tried || !options.directory) return;
  tried = true;
  place = (xp_place){options.directory, xp_rank(environment), environment(XPU_ENV_FAILURES)};
  xp_writer_open(&stream, &xp_linux, &place, XP_STREAM_CPU);
  dr_snprintf(digits, sizeof digits, "%d", (int)dr_get_process_id());
  put_meta("pid", digits);
  if (place.rank) put_meta("rank", place.rank);
  put_meta("engine", "dynamorio");
  put_meta("engine_version", XPUPROF_VERSION "+dynamorio-" DYNAMORIO_VERSION);
  put_meta("hidden_isa", "");
  put_meta("filters", option_filters());
  emit_known();
  drain(true);
}

bool stream_is_open(void) { return stream.is_open; }

void stream_put(uint8_t tag, const xp_body *record, uint64_t slice) {
  if (stream_is_open())
    xp_writer_put(&stream, tag, record, slice);
  else if (!tried && options.directory)
    wait(tag, record, slice);
}

void stream_close(void) { xp_writer_close(&stream); }

void stream_forget(void) {
  xp_writer_abandon(&stream);
  drain(false);
  tried = false;
}

/* Better no further slices than wrong ones. */
void stream_give_up(const char *reason) {
  stream_open();
  xp_writer_fail(&stream, reason);
}

xp_body stream_body(size_t room) {
  static uint8_t *scratch;
  static size_t scratch_room;
  xp_body record;
  if (room > scratch_room) scratch = grown(scratch, &scratch_room, room, 1);
  xp_body_init(&record, scratch, scratch_room);
  return record;
}
