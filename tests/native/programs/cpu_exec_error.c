/* SPDX-License-Identifier: Apache-2.0
 * Executes its argument, with arguments in memory that cannot be written, and says why that failed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
  enum { SIZE = 4096 };
  char **fixed = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fixed == MAP_FAILED) return 8;
  memcpy(fixed, argv + 1, (size_t)argc * sizeof *argv);
  mprotect(fixed, SIZE, PROT_READ);
  execv(fixed[0], fixed);
  printf("refused: %s\n", strerror(errno));
  return 7;
}
