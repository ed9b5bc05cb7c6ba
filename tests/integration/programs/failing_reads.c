/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the `fail_at`-th call of pread fails with EIO, or finds the end of the file when
 * `at_end` is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

long fail_at, calls;
int at_end;

ssize_t pread(int fd, void *to, size_t size, off_t offset) {
  ssize_t (*real)(int, void *, size_t, off_t) =
      (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  if (++calls != fail_at) return real(fd, to, size, offset);
  errno = EIO;
  return at_end ? 0 : -1;
}

ssize_t pread64(int fd, void *to, size_t size, off_t offset) { return pread(fd, to, size, offset); }
