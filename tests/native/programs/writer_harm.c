/* SPDX-License-Identifier: Apache-2.0 */
/* Launches kernels, changes the environment that a trace writer relies on, writes its own file
 * through the remaining descriptors, and launches the same number of kernels again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu_device.h"

enum { PIECES = 2500, PIECE = 4096, NUMBERS = 1024, NOBODY = 65534 };

static const char *own_path;
static int own = -1;

static void open_own(void) {
  if (own >= 0) return;
  own = open(own_path, O_RDWR | O_CREAT, 0666);
  if (own < 0) exit(10);
  char piece[PIECE];
  memset(piece, 'm', PIECE);
  for (int i = 0; i < PIECES; i++)
    if (pwrite(own, piece, PIECE, (off_t)i * PIECE) != PIECE) exit(11);
}

static void limit(int what, rlim_t value) {
  struct rlimit now;
  getrlimit(what, &now);
  now.rlim_cur = value;
  if (setrlimit(what, &now)) exit(12);
}

static rlim_t address_space(void) {
  long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (!statm || fscanf(statm, "%ld", &pages) != 1) exit(13);
  fclose(statm);
  return (rlim_t)pages * 4096;
}

static void act(const char *how) {
  if (!strcmp(how, "close-range")) syscall(SYS_close_range, 3, ~0u, 0);
  if (!strcmp(how, "close-each"))
    for (int n = 3; n < NUMBERS; n++) close(n);
  if (!strcmp(how, "dup-over")) {
    open_own();
    for (int n = 3; n < NUMBERS; n++) dup2(own, n);
  }
  if (!strcmp(how, "chdir") && chdir("/")) exit(14);
  if (!strcmp(how, "chroot")) {
    open_own();
    if (chroot("/proc/self/fdinfo") || chdir("/")) exit(15);
  }
  if (!strcmp(how, "setuid")) {
    open_own();
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) exit(16);
  }
  if (!strcmp(how, "file-size")) {
    open_own();
    limit(RLIMIT_FSIZE, 4096);
  }
  if (!strcmp(how, "half-size")) {
    open_own();
    limit(RLIMIT_FSIZE, 600 << 10);
  }
  if (!strcmp(how, "exec")) execl("/proc/self/exe", how, "none", own_path, "10", NULL);
  if (!strcmp(how, "memory")) limit(RLIMIT_AS, address_space() + (1 << 20));
  if (!strcmp(how, "descriptors")) limit(RLIMIT_NOFILE, 8);
  if (!strcmp(how, "clear")) clearenv();
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  own_path = argv[2];
  int launches = atoi(argv[3]) / 2;
  if (!strncmp(argv[1], "before-", 7)) act(argv[1] + 7);
  uint32_t kernel = device_start();
  for (int i = 0; i < launches; i++) device_launch(kernel);
  act(argv[1]);
  open_own();
  for (int i = 0; i < launches; i++) device_launch(kernel);
  printf("%s\n", argv[1]);
  return 5;
}
