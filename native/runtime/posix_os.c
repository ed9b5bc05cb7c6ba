#include "posix_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program may close or count descriptors; keep ours out of the range that it uses. */
enum { FD_FLOOR = 500 };

static int create(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
  if (high < 0) return fd;
  close(fd);
  return high;
}

static int resize(int fd, uint64_t size) { return ftruncate(fd, (off_t)size); }

static void *map(int fd, uint64_t offset, uint64_t size) {
  /* Room is taken now: a store into a hole of a full disk would kill the program (SIGBUS). */
  int error;
  do error = posix_fallocate(fd, (off_t)offset, (off_t)size);
  while (error == EINTR);
  if (error) return 0;
  void *address = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
  return address == MAP_FAILED ? 0 : address;
}

static void unmap(void *address, uint64_t size) { munmap(address, size); }

static void close_file(int fd) { close(fd); }

const xp_os posix_os = {create, resize, map, unmap, close_file};

int posix_part_path(char *path, size_t room, const char *dir, const char *host, int pid,
                    const char *file) {
  int n = snprintf(path, room, "%s/%s-%d", dir, host, pid);
  if (n < 0 || (size_t)n >= room) return 0;
  if (mkdir(path, 0777) < 0 && errno != EEXIST) return 0;
  int m = snprintf(path + n, room - (size_t)n, "/%s", file);
  return m > 0 && (size_t)m < room - (size_t)n;
}
