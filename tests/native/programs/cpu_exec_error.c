/* SPDX-License-Identifier: Apache-2.0
 * Executes its argument, and says why that failed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  (void)argc;
  execv(argv[1], argv + 1);
  printf("refused: %s\n", strerror(errno));
  return 7;
}
