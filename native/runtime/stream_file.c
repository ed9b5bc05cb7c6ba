/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_file.h"

#include <asm/unistd.h>

#include "system_call.h"

enum { PAGE = 4096, BLOCK = 512 };
/* Sparse, so it costs nothing; a longer stream grows by its path. Where holes take room, grow in
 * small steps instead. */
static const uint64_t SPARSE_STEP = 1ull << 34, DENSE_STEP = 1ull << 20;

/* Of the kernel's headers, which do not mix with those of every C library. */
enum {
  OPEN_WRITE = 01,
  OPEN_READ_WRITE = 02,
  OPEN_CREATE = 0100,
  OPEN_NEW = 0200,
  OPEN_APPEND = 02000,
  OPEN_NO_LINK = 0400000,
  OPEN_CLOSE_ON_EXEC = 02000000,
  HERE = -100,   /* AT_FDCWD */
  NO_FOLLOW = 1, /* the link itself, lstat */
  FILE_TYPE = 0170000,
  REGULAR = 0100000,
  READ_WRITE = 3,
  SHARED = 1,
  MAY_MOVE = 1,
  POPULATE_WRITE = 23, /* MADV_POPULATE_WRITE, Linux 5.14 */
  LIMIT_FILE_SIZE = 1,
  NO_ENTRY = 2,
  INTERRUPTED = 4,
  NO_MEMORY = 12,
  BAD_ADDRESS = 14,
  INVALID = 22,
  TOO_BIG = 27,
  NAME_TOO_LONG = 36
};

/* struct stat of the kernel for x86-64. */
typedef struct file_status {
  uint64_t device, inode, links;
  uint32_t mode, user, group, pad;
  uint64_t special, size, block_size, blocks, rest[9];
} file_status;

/* ---- memory ---------------------------------------------------------------------------------- */

static void *address_of(long result) { return result < 0 && result > -PAGE ? 0 : (void *)result; }

static void *linux_map(int fd, uint64_t size) {
  return address_of(xp_system_call6(__NR_mmap, 0, (long)size, READ_WRITE, SHARED, fd, 0));
}

static void *linux_move(void *address, uint64_t size, uint64_t new_size) {
  return address_of(
      xp_system_call(__NR_mremap, (long)address, (long)size, (long)new_size, MAY_MOVE));
}

static void linux_unmap(void *address, uint64_t size) {
  xp_system_call(__NR_munmap, (long)address, (long)size, 0, 0);
}

const xp_os xp_linux = {linux_map, linux_move, linux_unmap};

/* A store into a hole of a full disk would kill the program (SIGBUS); a system call that does the
 * same only fails. Older kernels lack the call for it, so one that writes four bytes must do: it
 * hits the end of each page, where the chunk before never reaches. */
static int take_room(uint8_t *window, uint64_t room) {
  long error;
  do error = xp_system_call(__NR_madvise, (long)window, (long)room, POPULATE_WRITE, 0);
  while (error == -INTERRUPTED);
  if (error != -INVALID) return (int)error;
  for (uint8_t *page = window; page < window + room; page += PAGE) {
    uint32_t *last = (uint32_t *)(page + PAGE) - 1;
    if (xp_system_call(__NR_getcpu, (long)last, 0, 0, 0) == -BAD_ADDRESS) return -BAD_ADDRESS;
    __atomic_store_n(last, 0, __ATOMIC_RELAXED);
  }
  return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int same_file(const xp_file *f, const file_status *s) {
  return s->device == f->device && s->inode == f->inode && (s->mode & FILE_TYPE) == REGULAR;
}

static void identify(xp_file *f) {
  file_status s = {0};
  xp_system_call(__NR_lstat, (long)f->path, (long)&s, 0, 0);
  f->device = s.device;
  f->inode = s.inode;
}

static int path_is_ours(const xp_file *f) {
  file_status s;
  return xp_system_call(__NR_lstat, (long)f->path, (long)&s, 0, 0) == 0 && same_file(f, &s);
}

static int descriptor_is_ours(const xp_file *f, int fd) {
  file_status s;
  return xp_system_call(__NR_fstat, fd, (long)&s, 0, 0) == 0 && same_file(f, &s);
}

/* By path, without a descriptor. Beyond the limit the kernel would send SIGXFSZ. */
static int resize(xp_file *f, uint64_t size) {
  uint64_t limit[2] = {~0ull, ~0ull};
  if (!path_is_ours(f)) return -NO_ENTRY;
  xp_system_call(__NR_prlimit64, 0, LIMIT_FILE_SIZE, 0, (long)limit);
  if (size > limit[0]) return -TOO_BIG;
  long error = xp_system_call(__NR_truncate, (long)f->path, (long)size, 0, 0);
  if (error == 0) f->size = size;
  return (int)error;
}

/* To `need` bytes or more, as the file system and the limits allow. */
static int grow(xp_file *f, uint64_t need) {
  for (uint64_t step = f->step;; step /= 2) {
    uint64_t size = need > f->size + step ? need : f->size + step;
    int error = resize(f, size);
    if (error != -TOO_BIG || size == need) return error;
  }
}

static int reserve(xp_file *f, int fd, uint64_t room) {
  file_status s = {0};
  int error = resize(f, room);
  if (error) return error;
  xp_system_call(__NR_fstat, fd, (long)&s, 0, 0);
  f->step = s.blocks * BLOCK < room ? SPARSE_STEP : DENSE_STEP;
  return grow(f, room);
}

/* Another thread of the program may close or replace the descriptor meanwhile: then it is not used,
 * and not closed. */
static int adopt(xp_file *f, int fd, uint64_t room) {
  identify(f);
  int error = reserve(f, fd, room);
  if (error) return error;
  f->window = (uint8_t *)f->os->map(fd, room);
  if (!f->window) return -NO_MEMORY;
  f->room = room;
  if (descriptor_is_ours(f, fd)) return 0;
  xp_file_unmap(f);
  return -NO_ENTRY;
}

int xp_file_create(xp_file *f, const xp_os *os, const char *path, uint64_t room) {
  f->os = os;
  f->window = 0;
  f->offset = f->room = f->size = 0;
  if (!xp_path_join(f->path, path, 0)) return -NAME_TOO_LONG;
  int flags = OPEN_READ_WRITE | OPEN_CREATE | OPEN_NEW | OPEN_CLOSE_ON_EXEC;
  int fd = (int)xp_system_call(__NR_openat, HERE, (long)f->path, flags, 0666);
  if (fd < 0) return fd;
  int error = adopt(f, fd, room);
  if (descriptor_is_ours(f, fd)) xp_system_call(__NR_close, fd, 0, 0, 0);
  if (error && path_is_ours(f)) xp_system_call(__NR_unlink, (long)f->path, 0, 0, 0);
  return error;
}

int xp_file_slide(xp_file *f, uint64_t offset, uint64_t room) {
  uint64_t behind = offset - f->offset;
  int error = offset + room > f->size ? grow(f, offset + room) : 0;
  if (error) return error;
  if (behind + room != f->room) {
    uint8_t *moved = (uint8_t *)f->os->move(f->window, f->room, behind + room);
    if (!moved) return -NO_MEMORY;
    f->window = moved;
  }
  if (behind) f->os->unmap(f->window, behind);
  f->window += behind;
  f->offset = offset;
  f->room = room;
  return take_room(f->window, room);
}

void xp_file_unmap(xp_file *f) {
  if (f->window) f->os->unmap(f->window, f->room);
  f->window = 0;
}

void xp_file_cut(xp_file *f, uint64_t size) {
  xp_file_unmap(f);
  resize(f, size);
}

/* ---- failures -------------------------------------------------------------------------------- */

int xp_path_join(char path[XP_PATH_MAX], const char *folder, const char *name) {
  unsigned n = 0;
  while (*folder && n < XP_PATH_MAX - 1) path[n++] = *folder++;
  if (name && n < XP_PATH_MAX - 1) path[n++] = '/';
  while (name && *name && n < XP_PATH_MAX - 1) path[n++] = *name++;
  path[n] = 0;
  return n < XP_PATH_MAX - 1;
}

static unsigned decimal(char digits[16], unsigned long value) {
  unsigned n = 16;
  digits[--n] = 0;
  do digits[--n] = (char)('0' + value % 10);
  while (value /= 10);
  return n;
}

void xp_report_failure(const char *directory, const char *reason) {
  static const char folder[] = "failures/";
  char digits[16], name[64], line[256];
  unsigned first = decimal(digits, (unsigned long)xp_system_call(__NR_getpid, 0, 0, 0, 0));
  unsigned n = 0, size = 0;
  xp_file file; /* for its identity and path */
  for (const char *s = folder; *s; s++) name[n++] = *s;
  for (const char *s = digits + first; *s; s++) name[n++] = line[size++] = *s;
  name[n] = 0;
  line[size++] = ' ';
  while (*reason && size < sizeof line - 1) line[size++] = *reason++;
  line[size++] = '\n';
  if (!xp_path_join(file.path, directory, name)) return;
  int flags = OPEN_WRITE | OPEN_CREATE | OPEN_APPEND | OPEN_CLOSE_ON_EXEC | OPEN_NO_LINK;
  int fd = (int)xp_system_call(__NR_openat, HERE, (long)file.path, flags, 0666);
  if (fd < 0) return;
  identify(&file);
  if (!descriptor_is_ours(&file, fd)) return;
  xp_system_call(__NR_write, fd, (long)line, size, 0);
  xp_system_call(__NR_close, fd, 0, 0, 0);
}
