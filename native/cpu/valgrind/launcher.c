/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Starts the tool beside it, as Valgrind's own launcher would. The core finds the launcher's path
 * in the environment and starts the program's children with it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  static const char name[] = "xpuprof-amd64-linux";
  char path[PATH_MAX + sizeof name];
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  (void)argc;
  if (length > 0 && length < PATH_MAX) {
    path[length] = '\0';
    setenv("VALGRIND_LAUNCHER", path, 1);
    strcpy(strrchr(path, '/') + 1, name);
    execv(path, argv);
  }
  fprintf(stderr, "xpuprof: the Valgrind tool cannot be started: %s\n", strerror(errno));
  return 127;
}
