/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "posix_os.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stream_file.h"

size_t posix_read(const char *path, char *text, size_t room) {
  ssize_t n = 0;
  text[0] = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  xp_identity ours = xp_identity_of_path(path);
  if (xp_same_file(xp_identity_of_descriptor(fd), ours)) n = read(fd, text, room - 1);
  if (xp_same_file(xp_identity_of_descriptor(fd), ours)) close(fd);
  if (n > 0) text[n] = 0;
  return n > 0 ? (size_t)n : 0;
}

/* Parent and start of a process from /proc/PID/stat (proc(5), fields 4 and 22). */
static int parent_and_start(int pid, int *parent, unsigned long long *start) {
  char path[32], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (!posix_read(path, line, sizeof line)) return 0;
  const char *rest = strrchr(line, ')'); /* the name may contain anything */
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
