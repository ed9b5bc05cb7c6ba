/* SPDX-License-Identifier: Apache-2.0 */
/* launches N: N launches of an empty kernel, a thousand at a time. Prints the kilobytes of
 * anonymous memory after a tenth of them and at the end. */
#include "one_queue.h"

static const char *source = "kernel void nothing(void) {}";

static long anonymous_kb(void) {
  char line[256];
  long found = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "RssAnon: %ld", &found) == 1) break;
  if (file) fclose(file);
  return found;
}

int main(int argc, char **argv) {
  long launches = argc > 1 ? atol(argv[1]) : 100000;
  set_up(source);
  cl_kernel kernel = kernel_of("nothing");
  size_t one = 1;
  long early = 0;
  for (long i = 0; i < launches; i++) {
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
    if (i % 1000 == 999) check(clFinish(queue));
    if (i == launches / 10) early = anonymous_kb();
  }
  check(clFinish(queue));
  printf("%ld %ld\n", early, anonymous_kb());
  return 0;
}
