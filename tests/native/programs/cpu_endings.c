/* SPDX-License-Identifier: Apache-2.0 */
/* Ends as its argument says, after a line on each output. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_term(int number) {
  char text[] = "handled\n";
  if (number == SIGTERM && write(1, text, sizeof text - 1) > 0) _exit(7);
}

static void *wait_for_end(void *unused) {
  for (;;) pause();
  return unused;
}

static void *fault(void *unused) {
  usleep(1000);
  *(volatile int *)8 = 1;
  return unused;
}

/* One thread faults while 200 others wait. */
static void end_by_thread(void) {
  enum { THREADS = 200 };
  pthread_t thread;
  for (int i = 0; i < THREADS; i++) pthread_create(&thread, NULL, wait_for_end, NULL);
  pthread_create(&thread, NULL, fault, NULL);
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  printf("out\n");
  fflush(stdout);
  fprintf(stderr, "err\n");
  if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "trap")) __builtin_trap();
  if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(how, "term")) kill(getpid(), SIGTERM);
  if (!strcmp(how, "term-handled")) {
    signal(SIGTERM, on_term);
    kill(getpid(), SIGTERM);
    pause();
  }
  if (!strcmp(how, "segv-thread")) end_by_thread();
  return atoi(how);
}
