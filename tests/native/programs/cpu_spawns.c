/* SPDX-License-Identifier: Apache-2.0 */
/* Four threads that start programs and wait for them. What a call returns does not count here, only
 * that the process goes on to its end. */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

enum { THREADS = 4, PROGRAMS = 5 };

extern char **environ;

static void *start(void *unused) {
  char *line[] = {"/bin/true", 0};
  for (int i = 0; i < PROGRAMS; i++) {
    pid_t child;
    if (posix_spawn(&child, line[0], 0, 0, line, environ)) continue;
    while (waitpid(child, 0, 0) < 0 && errno == EINTR) {
    }
  }
  return unused;
}

int main(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, start, 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  puts("ok");
  return 0;
}
