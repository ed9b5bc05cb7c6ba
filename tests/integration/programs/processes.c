/* SPDX-License-Identifier: Apache-2.0 */
/* A parent without device work and children with it: `processes HOW CHILDREN STEPS`.
 *
 *   fork    the child works and returns from main
 *   _exit   the child works and leaves by _exit, as Python's multiprocessing does
 *   vfork   vfork, then exec of this program
 *   spawn   posix_spawn of this program
 *   shell   a shell that starts this program
 *
 * The parent makes them within the marker `children`. Child n does the work of `who` n and ends
 * with exit code 10 + n; the parent prints all codes in order. `processes work WHO STEPS` is what
 * the children exec. */
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

extern char **environ;

static int child_work(int who, int steps) {
  xpuprof_window_begin("child");
  printf("child %d counted %d\n", who, work(who, steps, NULL));
  xpuprof_window_end("child");
  fflush(stdout);
  return 10 + who;
}

static pid_t start(char *program, const char *how, int who, int steps) {
  char number[16], length[16], command[4096];
  snprintf(number, sizeof number, "%d", who);
  snprintf(length, sizeof length, "%d", steps);
  snprintf(command, sizeof command, "%s work %d %d; exit $?", program, who, steps);
  char *arguments[] = {program, "work", number, length, NULL};
  char *shell[] = {"sh", "-c", command, NULL};
  pid_t pid;
  if (!strcmp(how, "spawn"))
    return posix_spawn(&pid, program, NULL, NULL, arguments, environ) ? -1 : pid;
  if (!strcmp(how, "vfork")) {
    if (!(pid = vfork())) {
      execv(program, arguments);
      _exit(127);
    }
    return pid;
  }
  if ((pid = fork())) return pid;
  if (!strcmp(how, "shell")) execv("/bin/sh", shell);
  int code = child_work(who, steps);
  if (!strcmp(how, "_exit")) _exit(code);
  exit(code);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int count = atoi(argv[2]), steps = atoi(argv[3]), status;
  if (!strcmp(argv[1], "work")) return child_work(count, steps);
  pid_t children[64];
  xpuprof_window_begin("child"); /* the parent's own opening does not count for its children */
  xpuprof_window_end("child");
  xpuprof_window_begin("children");
  for (int n = 0; n < count; n++) children[n] = start(argv[0], argv[1], n, steps);
  xpuprof_window_end("children");
  for (int n = 0; n < count; n++) {
    waitpid(children[n], &status, 0);
    printf("child %d ended with %d\n", n, WEXITSTATUS(status));
    fflush(stdout);
  }
  return 0;
}
