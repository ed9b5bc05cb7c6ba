/* cpu.xpt, written by the common writer. The stream is opened at the process's first cut (or at
 * the end of the root process), so that processes without device work, and the images of a process
 * that only execs another, leave nothing behind. Records that come earlier (vectors of threads that
 * ended) wait in memory. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "client.h"
#include "xpuprof/part.h"

/* The program may close or count descriptors; keep ours out of the range that it uses. */
enum { FD_FLOOR = 500 };

static int os_create(const char *path) {
  long fd =
      system_call(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  long high = system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_FLOOR, 0);
  if (high < 0) return (int)fd;
  system_call(SYS_close, fd, 0, 0, 0);
  return (int)high;
}

static int os_resize(int fd, uint64_t size) {
  return (int)system_call(SYS_ftruncate, fd, (long)size, 0, 0);
}

static void *os_map(int fd, uint64_t offset, uint64_t size) {
  /* Room is taken now: a store into a hole of a full disk would kill the program (SIGBUS). */
  enum { INTERRUPTED = 4, NO_CALL = 38, NOT_SUPPORTED = 95 }; /* the last two risk it */
  long error;
  do error = system_call(SYS_fallocate, fd, 0, (long)offset, (long)size);
  while (error == -INTERRUPTED);
  if (error < 0 && error != -NOT_SUPPORTED && error != -NO_CALL) return NULL;
  long at =
      system_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)offset);
  return at < 0 && at > -4096 ? NULL : (void *)at;
}

static void os_unmap(void *address, uint64_t size) { release(address, size); }

static void os_close(int fd) { system_call(SYS_close, fd, 0, 0, 0); }

static const xp_os client_os = {os_create, os_resize, os_map, os_unmap, os_close};

static xp_writer stream = {.fd = -1};
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
    if (write) xp_writer_put(&stream, w->tag, w->body, w->size, w->slice);
    dr_global_free(w, sizeof *w + w->size);
  }
  waiting_end = &waiting;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum { PATH_ROOM = 4096 };

static void log_line(const char *text) {
  char path[PATH_ROOM];
  if (!options.directory) return;
  dr_snprintf(path, sizeof path - 1, "%s/dynamorio-%d.log", options.directory,
              (int)dr_get_process_id());
  path[sizeof path - 1] = 0;
  long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd < 0) return;
  system_call(SYS_write, fd, (long)text, (long)text_length(text), 0);
  system_call(SYS_write, fd, (long)"\n", 1, 0);
  system_call(SYS_close, fd, 0, 0, 0);
}

static void put_meta(const char *key, const char *value) {
  xp_body record = stream_body(text_length(key) + text_length(value) + 2 * XP_VARINT_MAX);
  xp_put_str(&record, key);
  xp_put_str(&record, value);
  xp_writer_put(&stream, XP_CPU_META, record.data, record.size, XP_NO_SLICE);
}

/* The process's folder. struct utsname is six fields of 65 bytes, the host's name second. */
static void part_folder(char *path, size_t room) {
  char names[6 * 65 + 1] = {0}, part[XP_PART_NAME_MAX];
  system_call(SYS_uname, (long)names, 0, 0, 0);
  xp_part_name(part, names + 65, xp_rank(environment), (unsigned)dr_get_process_id());
  dr_snprintf(path, room - 1, "%s/%s", options.directory, part);
  path[room - 1] = 0;
}

void stream_open(void) {
  char path[PATH_ROOM], digits[24];
  if (tried || !options.directory) return;
  tried = true;
  part_folder(path, sizeof path - 16);
  system_call(SYS_mkdir, (long)path, 0777, 0, 0); /* the runtime may have made it */
  dr_snprintf(path + text_length(path), 16, "/cpu.xpt");
  if (xp_writer_open(&stream, &client_os, path, XP_STREAM_CPU) < 0)
    log_line("cannot create this process's cpu.xpt: it has no CPU vectors");
  dr_snprintf(digits, sizeof digits, "%d", (int)dr_get_process_id());
  put_meta("pid", digits);
  if (xp_rank(environment)) put_meta("rank", xp_rank(environment));
  put_meta("engine", "dynamorio");
  put_meta("engine_version", XPUPROF_VERSION "+dynamorio-" DYNAMORIO_VERSION);
  put_meta("hidden_isa", "");
  put_meta("filters", option_filters());
  emit_known();
  drain(true);
}

bool stream_is_open(void) { return stream.fd >= 0; }

void stream_put(uint8_t tag, const xp_body *record, uint64_t slice) {
  if (record->overflow)
    stream_give_up("a record did not fit: the trace ends here");
  else if (stream_is_open())
    xp_writer_put(&stream, tag, record->data, record->size, slice);
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
  log_line(reason);
  stream_forget();
  tried = true;
}

xp_body stream_body(size_t room) {
  static uint8_t *scratch;
  static size_t scratch_room;
  xp_body record;
  if (room > scratch_room) scratch = grown(scratch, &scratch_room, room, 1);
  xp_body_init(&record, scratch, scratch_room);
  return record;
}
