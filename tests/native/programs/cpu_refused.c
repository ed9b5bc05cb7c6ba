/* SPDX-License-Identifier: Apache-2.0
 * Programs that cannot be started, one way a case: `cpu_refused CASE`. Prints what it is told. */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *missing[] = {"/no/such/program", NULL};
static char *here[] = {"true", NULL};

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

static void refused(void) { printf("refused: %s\n", strerror(errno)); }

static void spawned(void) {
  pid_t child;
  for (int i = 0; i < 20; i++) {
    int error = posix_spawn(&child, missing[0], NULL, NULL, missing, environ);
    int by_name = posix_spawnp(&child, "no-such-program", NULL, NULL, missing, environ);
    int found = posix_spawnp(&child, "true", NULL, NULL, here, environ);
    printf("%s, %s, %s\n", strerror(error), strerror(by_name), strerror(found));
    printf("status %d\n", status_of(child));
  }
}

/* The child tells its parent by a variable, before it ends and before it executes. */
static void borrowed(void) {
  volatile int error = 0, steps = 0;
  pid_t child = vfork();
  if (child == 0) {
    execv(missing[0], missing);
    error = errno;
    _exit(3);
  }
  printf("%s, status %d\n", strerror(error), status_of(child));
  child = vfork();
  if (child == 0) {
    steps = 1;
    execv("/bin/true", here);
    _exit(4);
  }
  printf("steps %d, status %d\n", steps, status_of(child));
}

/* A child that has a child of its own before it ends: what that changes is nobody else's. */
static void nested(void) {
  volatile int own = 0, childs = 0;
  pid_t child = vfork();
  if (child == 0) {
    pid_t its = fork();
    if (its == 0) {
      childs = 1;
      _exit(5);
    }
    own = status_of(its);
    _exit(6);
  }
  printf("own %d, childs %d, status %d\n", own, childs, status_of(child));
}

static void long_argument(void) {
  static char text[140000];
  memset(text, 'a', sizeof text - 1);
  for (int more = 0; more < 2; more++) {
    text[131072 - more] = '\0';
    char *line[] = {"sh", "-c", "echo ${#1}", "sh", text, NULL};
    pid_t child = fork();
    if (child == 0) {
      execv("/bin/sh", line);
      refused();
      fflush(stdout);
      _exit(7);
    }
    printf("status %d\n", status_of(child));
    fflush(stdout);
  }
}

/* Executes a shell with as many bytes of arguments as the system takes, less `spare`. */
static void fill(long spare) {
  enum { SIZE = 100000, MOST = 6 << 20 };
  static char text[SIZE], last[SIZE];
  static char *line[100] = {"sh", "-c", "echo $#", "sh"};
  struct rlimit stack;
  getrlimit(RLIMIT_STACK, &stack);
  long room = stack.rlim_cur / 4 < MOST ? (long)(stack.rlim_cur / 4) : MOST;
  room -= (long)sizeof "/bin/sh" + spare;
  for (char **word = environ; *word; word++) room -= (long)(strlen(*word) + 1 + sizeof *word);
  int n = 4;
  for (int i = 0; i < n; i++) room -= (long)(strlen(line[i]) + 1 + sizeof *line);
  memset(text, 'a', sizeof text - 1);
  for (; room > 2 * SIZE; room -= (long)(sizeof text + sizeof *line)) line[n++] = text;
  memset(last, 'b', sizeof last - 1);
  for (long size; room > 0; room -= size + (long)sizeof *line) {
    size = room > SIZE ? SIZE / 2 : room - (long)sizeof *line;
    line[n++] = last + SIZE - size;
  }
  line[n] = NULL;
  execv("/bin/sh", line);
  refused();
}

static void just_enough(void) { fill(0); }

static void too_many(void) { fill(-1); }

static void bad_pointer(void) {
  char *line[] = {"true", (char *)8, NULL};
  execv("/bin/true", line);
  refused();
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"spawned", spawned},    {"borrowed", borrowed},  {"nested", nested},
               {"long", long_argument}, {"enough", just_enough}, {"many", too_many},
               {"pointer", bad_pointer}};
  for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(argv[1], cases[i].name)) cases[i].run();
  return 0;
}
