/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_file.h"

#include <asm/errno.h>
#include <asm/fcntl.h>
#include <asm/unistd.h>
#include <linux/mman.h>

#include "system_call.h"

/* The kernel's headers lack these or conflict with the C library's. */
enum { PAGE = 4096, BLOCK = 512, RANDOM = 1, POPULATE_WRITE = 23, LIMIT_FILE_SIZE = 1 };
/* Sparse, so it costs nothing; a longer stream grows by path. Where holes take space, the file
 * grows in small steps. */
static const uint64_t SPARSE_STEP = 1ull << 34, DENSE_STEP = 1ull << 20;

/* struct stat of the kernel for x86-64. */
typedef struct file_status {
  uint64_t device, inode, links;
  uint32_t mode, user, group, pad;
  uint64_t special, size, block_size, blocks, rest[9];
} file_status;

/* ---- memory ---------------------------------------------------------------------------------- */

static void *address_of(long result) { return result < 0 && result > -PAGE ? 0 : (void *)result; }

static void *linux_map(int fd, uint64_t size) {
  return address_of(
      xp_system_call6(__NR_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
}

static void *linux_move(void *address, uint64_t size, uint64_t new_size) {
  return address_of(
      xp_system_call(__NR_mremap, (long)address, (long)size, (long)new_size, MREMAP_MAYMOVE));
}

static void linux_unmap(void *address, uint64_t size) {
  xp_system_call(__NR_munmap, (long)address, (long)size, 0, 0);
}

const xp_os xp_linux = {linux_map, linux_move, linux_unmap};

/* A store into a hole of a full disk would kill the program (SIGBUS); a system call that does the
 * same only fails. Older kernels lack the proper call, so one that writes four bytes is used: it
 * hits the end of each page, which the previous chunk never reaches. */
static int take_room(uint8_t *window, uint64_t room) {
  long error;
  do error = xp_system_call(__NR_madvise, (long)window, (long)room, POPULATE_WRITE, 0);
  while (error == -EINTR);
  if (error != -EINVAL) return (int)error;
  for (uint8_t *page = window; page < window + room; page += PAGE) {
    uint32_t *last = (uint32_t *)(page + PAGE) - 1;
    if (xp_system_call(__NR_getcpu, (long)last, 0, 0, 0) == -EFAULT) return -EFAULT;
    __atomic_store_n(last, 0, __ATOMIC_RELAXED);
  }
  return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static xp_identity identity_of(long error, const file_status *s) {
  xp_identity none = {0, 0, 0}, found = {s->device, s->inode, s->mode};
  return error ? none : found;
}

xp_identity xp_identity_of_path(const char *path) {
  file_status s;
  return identity_of(xp_system_call(__NR_lstat, (long)path, (long)&s, 0, 0), &s);
}

xp_identity xp_identity_of_descriptor(int fd) {
  file_status s;
  return identity_of(xp_system_call(__NR_fstat, fd, (long)&s, 0, 0), &s);
}

int xp_same_file(xp_identity a, xp_identity b) {
  return a.mode && b.mode && a.device == b.device && a.inode == b.inode;
}

static int path_is_ours(const xp_file *f) {
  return xp_same_file(xp_identity_of_path(f->path), f->identity);
}

static int descriptor_is_ours(const xp_file *f, int fd) {
  return xp_same_file(xp_identity_of_descriptor(fd), f->identity);
}

/* By path, without a descriptor. Above the limit the kernel would send SIGXFSZ. */
static int resize(xp_file *f, uint64_t size) {
  uint64_t limit[2] = {~0ull, ~0ull};
  if (!path_is_ours(f)) return -ENOENT;
  xp_system_call(__NR_prlimit64, 0, LIMIT_FILE_SIZE, 0, (long)limit);
  if (size > limit[0]) return -EFBIG;
  long error = xp_system_call(__NR_truncate, (long)f->path, (long)size, 0, 0);
  if (error == 0) f->size = size;
  return (int)error;
}

/* To `need` bytes or more, as the file system and the limits allow. */
static int grow(xp_file *f, uint64_t need) {
  for (uint64_t step = f->step;; step /= 2) {
    uint64_t size = need > f->size + step ? need : f->size + step;
    int error = resize(f, size);
    if (error != -EFBIG || size == need) return error;
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

/* If another thread of the program closes or replaces the descriptor meanwhile, it is neither used
 * nor closed. */
static int adopt(xp_file *f, int fd, uint64_t room) {
  f->identity = xp_identity_of_path(f->path);
  int error = reserve(f, fd, room);
  if (error) return error;
  f->window = (uint8_t *)f->os->map(fd, room);
  if (!f->window) return -ENOMEM;
  f->room = room;
  /* Or the kernel reads ahead, from holes, at each new page. */
  xp_system_call(__NR_madvise, (long)f->window, (long)room, RANDOM, 0);
  if (descriptor_is_ours(f, fd)) return 0;
  xp_file_unmap(f);
  return -ENOENT;
}

int xp_file_create(xp_file *f, const xp_os *os, const char *path, uint64_t room) {
  f->os = os;
  f->window = 0;
  f->offset = f->room = f->size = f->taken = 0;
  unsigned n = 0;
  do {
    if (n == XP_PATH_MAX) return -ENAMETOOLONG;
    f->path[n] = path[n];
  } while (path[n++]);
  int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  int fd = (int)xp_system_call(__NR_open, (long)f->path, flags, 0666, 0);
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
    if (!moved) return -ENOMEM;
    f->window = moved;
  }
  if (behind) f->os->unmap(f->window, behind);
  f->window += behind;
  f->offset = offset;
  f->room = room;
  if (f->taken < offset) f->taken = offset;
  return 0;
}

int xp_file_take(xp_file *f, uint64_t size) {
  uint64_t end = f->offset + ((size + PAGE - 1) & ~(uint64_t)(PAGE - 1)) + PAGE;
  if (end <= f->taken) return 0;
  int error = take_room(f->window + (f->taken - f->offset), end - f->taken);
  if (!error) f->taken = end;
  return error;
}

void xp_file_unmap(xp_file *f) {
  if (f->window) f->os->unmap(f->window, f->room);
  f->window = 0;
}

void xp_file_cut(xp_file *f, uint64_t size) {
  xp_file_unmap(f);
  resize(f, size);
}
