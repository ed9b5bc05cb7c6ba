#define _GNU_SOURCE
#include "posix_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
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

int posix_part_path(char *path, size_t room, const char *dir, const char *part, const char *file) {
  int n = snprintf(path, room, "%s/%s", dir, part);
  if (n < 0 || (size_t)n >= room) return 0;
  if (mkdir(path, 0777) < 0 && errno != EEXIST) return 0;
  int m = snprintf(path + n, room - (size_t)n, "/%s", file);
  return m > 0 && (size_t)m < room - (size_t)n;
}

/* Parent and start of a process from /proc/PID/stat (proc(5), fields 4 and 22). */
static int parent_and_start(int pid, int *parent, unsigned long long *start) {
  char path[32], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  if (n <= 0) return 0;
  line[n] = 0;
  const char *rest = strrchr(line, ')'); /* the name may hold anything */
  return rest && sscanf(rest + 1,
                        " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
                        " %*d %*d %llu",
                        parent, start) == 2;
}

void posix_ancestry(char *text, size_t room) {
  size_t used = 0;
  text[0] = 0;
  unsigned long long start;
  for (int pid = getpid(), parent; pid > 1 && parent_and_start(pid, &parent, &start);
       pid = parent) {
    int n = snprintf(text + used, room - used, "%s%d:%llu", used ? " " : "", pid, start);
    if (n < 0 || (size_t)n >= room - used) {
      text[used] = 0;
      return;
    }
    used += (size_t)n;
  }
}

uint64_t posix_age(void) {
  int parent;
  unsigned long long start;
  struct timespec now;
  long hz = sysconf(_SC_CLK_TCK);
  if (!parent_and_start(getpid(), &parent, &start) || hz <= 0) return 0;
  clock_gettime(CLOCK_BOOTTIME, &now);
  uint64_t began = start * (1000000000u / (uint64_t)hz);
  uint64_t at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  return at > began ? at - began : 0;
}
