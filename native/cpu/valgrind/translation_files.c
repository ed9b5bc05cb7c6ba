/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Files of kept translations: below the launcher's folder, one folder for each build of the tool
 * and set of processor features, and in it files for each image: without counting and with it, and
 * both for programs that handle faults.
 * A process replaces files when it ends; none is modified in place. */
#include <elf.h>

#include "faults.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "tool.h"
#include "translations.h"

enum { OWN_FOLDER = 0700, OWN_FILE = 0600 };
enum { MAX_PATH = 4096, STALE_SECONDS = 600 };
enum { MAX_FILE = 256 << 20, MAX_FRESH = 96 << 20 }; /* bytes; new ones of all images */
/* Writing must be worth it: this many new translations in all, in the file, and of the file. */
enum { FRESH_IN_ALL = 1000, FRESH_IN_FILE = 64, FRESH_SHARE = 32 };

enum { PER_IMAGE = 4, COUNTED = 1, PRECISE = 2 };
static store *stores; /* by image, PER_IMAGE times */
static SizeT stores_room;
static Bool used;      /* a store, since pages were released */
static UInt inherited; /* fresh translations that a forked child has from its parent */

/* ---- names ----------------------------------------------------------------------------------- */

static void own_build_id(HChar id[BUILD_ID_ROOM]) {
  extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
  const UChar *start = (const UChar *)&__ehdr_start;
  const Elf64_Phdr *p = (const Elf64_Phdr *)(start + __ehdr_start.e_phoff);
  for (UInt i = 0; i < __ehdr_start.e_phnum; i++)
    if (p[i].p_type == PT_NOTE) build_id_in_notes(id, (const UChar *)p[i].p_vaddr, p[i].p_filesz);
}

static HChar folder[MAX_PATH]; /* empty: nothing is kept */

/* Memory that is limited is left to the program. */
static Bool memory_is_limited(void) {
  enum { ADDRESS_SPACE = 9 };
  struct vki_rlimit limit;
  return VG_(getrlimit)(ADDRESS_SPACE, &limit) != 0 || limit.rlim_cur != ~0ul;
}

/* Records have no calls for memory accesses, and no routines. */
static void name_folder(UInt features) {
  static Bool named;
  HChar id[BUILD_ID_ROOM] = "";
  if (named) return;
  named = True;
  own_build_id(id);
  if (options.translations && id[0] && !options.memory && !option_filters_routines() &&
      xp_has_crc32c() && !memory_is_limited() && VG_(strlen)(options.translations) < MAX_PATH / 2)
    VG_(snprintf)(folder, sizeof folder, "%s/%s-%x", options.translations, id, features);
}

static void name_file(HChar path[MAX_PATH], const store *s) {
  UInt number = (UInt)(s - stores);
  HChar image[IMAGE_KEY_ROOM];
  image_key(number / PER_IMAGE, image);
  VG_(snprintf)
  (path, MAX_PATH, "%s/%s%s%s", folder, image, number & COUNTED ? "-counted" : "",
   number & PRECISE ? "-precise" : "");
}

/* A file may have got its name from another one, of another build of the tool even. */
static ULong key_of(const HChar *path) {
  const HChar *name = path + VG_(strlen)(options.translations);
  return hash_bytes(name, VG_(strlen)(name), HASH_SEED);
}

/* ---- sandboxes ------------------------------------------------------------------------------- */

static Bool sandboxed;

Bool sandbox_is_on(void) { return sandboxed; }

void sandbox_watch(UInt call, const UWord *arguments) {
  enum { SET_SECCOMP = 22, SECCOMP = 317 };
  if (call == SECCOMP || (call == __NR_prctl && arguments[0] == SET_SECCOMP)) sandboxed = True;
}

/* ---- reading --------------------------------------------------------------------------------- */

static Bool is_own_file(const struct vg_stat *file) {
  return VKI_S_ISREG(file->mode) && file->uid == (UInt)VG_(geteuid)() && !(file->mode & 022);
}

static void read_file(store *s) {
  enum { NO_FOLLOW = 0x20000 };
  HChar path[MAX_PATH];
  struct vg_stat file;
  s->tried = True;
  name_file(path, s);
  if (!sr_isError(VG_(stat)(path, &file))) s->inode = file.ino;
  Int fd = VG_(fd_open)(path, VKI_O_RDONLY | NO_FOLLOW, 0);
  if (fd < 0) return;
  if (VG_(fstat)(fd, &file) == 0 && is_own_file(&file) && file.size > 0 && file.size <= MAX_FILE) {
    kept_map(&s->kept, fd, (SizeT)file.size, key_of(path));
    xp_system_call(__NR_utimensat, fd, 0, 0, 0); /* the launcher removes what is not used */
  }
  VG_(close)(fd);
}

store *store_at(Addr code, UInt features) {
  Bool counts;
  name_folder(features);
  if (!folder[0] || sandboxed) return NULL;
  UInt image = image_to_keep(code, &counts);
  if (image == NO_IMAGE) return NULL;
  UInt number = PER_IMAGE * image;
  if (counts && window_adds_counters()) number |= COUNTED;
  if (faults_are_handled()) number |= PRECISE;
  stores = grown(stores, &stores_room, number + 1, sizeof *stores);
  if (!stores[number].tried) read_file(&stores[number]);
  used = True;
  return &stores[number];
}

void stores_release(void) {
  if (!used) return;
  used = False;
  for (SizeT i = 0; i < stores_room; i++) kept_release(&stores[i].kept);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A file being written, through a buffer. */
typedef struct output {
  Int fd;
  Bool failed;
  SizeT size; /* of what has been put, with what is in the buffer */
  UInt buffered;
  UChar buffer[64 << 10];
} output;

static output out;

/* Beyond the limit a write would end the program by a signal. */
static Bool is_allowed(SizeT size) {
  enum { FSIZE = 1 };
  struct vki_rlimit limit;
  return VG_(getrlimit)(FSIZE, &limit) == 0 && size <= limit.rlim_cur;
}

static void flush(void) {
  out.failed = out.failed || !is_allowed(out.size);
  const UChar *p = out.buffer;
  for (Int wrote; !out.failed && out.buffered; p += wrote, out.buffered -= (UInt)wrote) {
    wrote = VG_(write)(out.fd, p, (Int)out.buffered);
    if (wrote <= 0) out.failed = True;
  }
}

static void put(const void *from, SizeT size) {
  for (const UChar *p = from; size && !out.failed;) {
    SizeT n = VG_MIN(size, sizeof out.buffer - out.buffered);
    VG_(memcpy)(out.buffer + out.buffered, p, n);
    out.buffered += (UInt)n;
    out.size += n;
    p += n;
    size -= n;
    if (out.buffered == sizeof out.buffer) flush();
  }
}

static void put_head(const shelf *table, ULong key) {
  kept_head h = {.key = key, .size = table->size, .table_room = table->table_room};
  VG_(memcpy)(h.magic, KEPT_MAGIC, sizeof h.magic);
  put(&h, sizeof h);
}

static void put_record(shelf *table, const record *r) {
  put(r, record_size(r));
  shelf_enter(table, r, table->size);
  table->size += record_size(r);
}

/* In the order in which programs executed them, so that what one uses lies together. */
static void put_records(shelf *table, store *s) {
  const record *r;
  SizeT at = 0;
  while ((r = shelf_next(&s->fresh, &at)))
    if (shelf_find(&s->fresh, r->address) == r) put_record(table, r);
  if (s->kept.shelf.size + s->fresh.size > MAX_FILE) return;
  at = 0;
  while ((r = kept_next(&s->kept, &at)))
    if (!shelf_find(&s->fresh, r->address)) put_record(table, r);
}

static Bool write_store(Int fd, store *s, ULong key) {
  shelf table = {0}; /* of the file */
  out.fd = fd;
  out.size = out.buffered = 0;
  out.failed = False;
  put_head(&table, key);
  put_records(&table, s);
  put(table.table, table.table_room * sizeof *table.table);
  flush();
  VG_(lseek)(fd, 0, VKI_SEEK_SET);
  put_head(&table, key);
  flush();
  VG_(free)(table.table);
  return !out.failed;
}

static Bool is_stale(const HChar *path) {
  struct vg_stat file;
  struct vki_timeval now;
  return !sr_isError(VG_(stat)(path, &file)) && VG_(gettimeofday)(&now, NULL) == 0 &&
         (Long)file.mtime + STALE_SECONDS < (Long)now.tv_sec;
}

/* Of processes that end together one writes. What a killed one left behind is removed. */
static Int create(const HChar *path) {
  const Word flags = VKI_O_WRONLY | VKI_O_CREAT | VKI_O_EXCL;
  Int fd = (Int)xp_system_call(__NR_open, (Word)path, flags, OWN_FILE, 0);
  if (fd >= 0) xp_system_call(__NR_fchmod, fd, OWN_FILE, 0, 0); /* whatever the program's umask */
  if (fd >= 0) return fd;
  if (is_stale(path)) VG_(unlink)(path);
  return -1;
}

/* Another process may have written meanwhile: then its file stays. */
static Bool is_as_read(const HChar *path, const store *s) {
  struct vg_stat file;
  return sr_isError(VG_(stat)(path, &file)) ? !s->inode : file.ino == s->inode;
}

static void save(store *s) {
  HChar path[MAX_PATH], made[MAX_PATH + 8];
  name_file(path, s);
  VG_(snprintf)(made, sizeof made, "%s.new", path);
  Int fd = is_as_read(path, s) ? create(made) : -1;
  if (fd < 0) return;
  Bool written = write_store(fd, s, key_of(path));
  VG_(close)(fd);
  if (!written || VG_(rename)(made, path) != 0) VG_(unlink)(made);
}

Bool store_has_room(void) {
  SizeT size = 0;
  for (SizeT i = 0; i < stores_room; i++) size += stores[i].fresh.size;
  return size < MAX_FRESH;
}

static UInt fresh_in_all(void) {
  UInt n = 0;
  for (SizeT i = 0; i < stores_room; i++) n += stores[i].fresh.n;
  return n;
}

void stores_forked(void) { inherited = fresh_in_all(); }

void stores_save(void) {
  if (sandboxed || fresh_in_all() - inherited < FRESH_IN_ALL) return;
  if (xp_system_call(__NR_mkdir, (Word)folder, OWN_FOLDER, 0, 0) == 0)
    xp_system_call(__NR_chmod, (Word)folder, OWN_FOLDER, 0, 0);
  for (SizeT i = 0; i < stores_room; i++) {
    store *s = &stores[i];
    if (s->fresh.n >= FRESH_IN_FILE && s->fresh.size >= s->kept.shelf.size / FRESH_SHARE) save(s);
  }
}
