/* SPDX-License-Identifier: Apache-2.0 */
/* Ends as its argument says, after a line on each output. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_term(int number) {
  char text[] = "handled\n";
  if (number == SIGTERM && write(1, text, sizeof text - 1) > 0) _exit(7);
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
  return atoi(how);
}
