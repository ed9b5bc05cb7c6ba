/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Starts the tool beside it, as Valgrind's own launcher would. The core finds the launcher's path
 * in the environment and starts the program's children with it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 256, MOST_SCRIPTS = 5 }; /* as in the kernel, fs/binfmt_script.c and fs/exec.c */

static const char BLANKS[] = " \t";

/* The first line of a script behind its "#!", without the blanks around it; NULL if there is none.
 */
static char *first_line(const char *path, char buffer[LINE + 1]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return NULL;
  ssize_t size = read(fd, buffer, LINE);
  close(fd);
  if (size < 3 || buffer[0] != '#' || buffer[1] != '!') return NULL;
  buffer[size] = '\0';
  buffer[strcspn(buffer, "\n")] = '\0';
  for (char *end = strchr(buffer, '\0'); strchr(BLANKS, end[-1]);) *--end = '\0';
  char *line = buffer + 2 + strspn(buffer + 2, BLANKS);
  return *line ? line : NULL;
}

/* The interpreter of a script and its one argument, or NULL. */
static char *interpreter_of(const char *path, char **argument) {
  char buffer[LINE + 1], *line = first_line(path, buffer);
  if (!line) return NULL;
  char *rest = line + strcspn(line, BLANKS);
  *argument = *rest ? strdup(rest + strspn(rest, BLANKS)) : NULL;
  *rest = '\0';
  return strdup(line);
}

/* The core knows scripts whose interpreter is none. Where it is one, the core would lose its
 * arguments, so it takes the script's place here. `argv` has room for two more words a script. */
static void begin_with_the_last_script(char **argv) {
  char **at = argv + 1, *argument;
  while (*at && (*at)[0] == '-') at++; /* our options */
  for (int scripts = 1; *at && scripts < MOST_SCRIPTS; scripts++) {
    char *interpreter = interpreter_of(*at, &argument), buffer[LINE + 1];
    if (!interpreter || !first_line(interpreter, buffer)) return;
    size_t words = 0;
    while (at[words]) words++;
    memmove(at + (argument ? 2 : 1), at, (words + 1) * sizeof *at);
    at[0] = interpreter;
    if (argument) at[1] = argument;
  }
}

int main(int argc, char **argv) {
  static const char name[] = "xpuprof-amd64-linux";
  char path[PATH_MAX + sizeof name];
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  char **words = calloc((size_t)argc + 1 + 2 * MOST_SCRIPTS, sizeof *words);
  if (length > 0 && length < PATH_MAX && words) {
    path[length] = '\0';
    setenv("VALGRIND_LAUNCHER", path, 1);
    strcpy(strrchr(path, '/') + 1, name);
    memcpy(words, argv, (size_t)argc * sizeof *words);
    begin_with_the_last_script(words);
    execv(path, words);
  }
  fprintf(stderr, "xpuprof: the Valgrind tool cannot be started: %s\n", strerror(errno));
  return 127;
}
