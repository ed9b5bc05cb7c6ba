/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into xpuprof only: call number FAIL_AT that creates or writes something below
 * FAIL_BELOW fails with ENOSPC. Writes the number of such calls to the file FAIL_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int active_in, calls, fail_at;
static const char *below;
static char ours[4096];

__attribute__((constructor)) static void prepare(void) {
  char line[4096] = "";
  FILE *file = fopen("/proc/self/cmdline", "r");
  size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
  if (file) fclose(file);
  below = getenv("FAIL_BELOW");
  fail_at = atoi(getenv("FAIL_AT") ? getenv("FAIL_AT") : "0");
  if (below && memmem(line, n, "-m\0xpuprof", 10)) active_in = getpid();
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("FAIL_COUNT");
  FILE *file = active_in == getpid() && path ? fopen(path, "w") : 0;
  if (!file) return;
  fprintf(file, "%d\n", calls);
  fclose(file);
}

/* Does this call fail? */
static int fails(const char *path) {
  if (!active_in || active_in != getpid() || !path || strncmp(path, below, strlen(below))) return 0;
  if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != fail_at) return 0;
  errno = ENOSPC;
  return 1;
}

static int is_ours(int fd) { return fd >= 0 && fd < (int)sizeof ours && ours[fd]; }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  int written = (flags & (O_WRONLY | O_RDWR)) != 0;
  if (written && fails(path)) return -1;
  int fd = NEXT(open64)(path, flags, mode);
  if (fd >= 0 && fd < (int)sizeof ours)
    ours[fd] = written && active_in == getpid() && !strncmp(path, below, strlen(below));
  return fd;
}

ssize_t write(int fd, const void *data, size_t size) {
  if (is_ours(fd) && fails(below)) return -1;
  return NEXT(write)(fd, data, size);
}

int fsync(int fd) { return is_ours(fd) && fails(below) ? -1 : NEXT(fsync)(fd); }

int posix_fallocate64(int fd, off64_t offset, off64_t size) {
  return is_ours(fd) && fails(below) ? ENOSPC : NEXT(posix_fallocate64)(fd, offset, size);
}

int mkdir(const char *path, mode_t mode) { return fails(path) ? -1 : NEXT(mkdir)(path, mode); }

int rename(const char *from, const char *to) { return fails(to) ? -1 : NEXT(rename)(from, to); }

int link(const char *from, const char *to) { return fails(to) ? -1 : NEXT(link)(from, to); }

int chmod(const char *path, mode_t mode) { return fails(path) ? -1 : NEXT(chmod)(path, mode); }
