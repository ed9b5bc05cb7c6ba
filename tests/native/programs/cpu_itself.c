/* SPDX-License-Identifier: Apache-2.0 */
/* Executes its own file by one of the kernel's names for it, or gives itself another name:
 * `cpu_itself HOW`. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
  char *again[] = {argv[0], "again", "with", "arguments", NULL};
  char *how = argc > 1 ? argv[1] : "", name[64] = "/proc/self/exe", own[4096] = "";
  pid_t child = 0;
  int status = 0;
  if (!strcmp(how, "again")) {
    if (readlink("/proc/self/exe", own, sizeof own - 1) < 0) return 9;
    printf("%s: %s of %d: %s\n", argv[0], argv[2], argc, own);
    return 5;
  }
  if (!strcmp(how, "named")) again[0] = "-another";
  if (!strcmp(how, "number")) snprintf(name, sizeof name, "/proc/%d/exe", getpid());
  if (!strcmp(how, "thread")) strcpy(name, "/proc/thread-self/exe");
  if (!strcmp(how, "spawn")) {
    if (posix_spawn(&child, name, NULL, NULL, again, environ)) return 8;
  } else if (strcmp(how, "vfork") || !(child = vfork())) {
    execv(name, again);
    _exit(7);
  }
  if (waitpid(child, &status, 0) < 0) return 6;
  printf("ended with %d\n", WEXITSTATUS(status));
  return 0;
}
