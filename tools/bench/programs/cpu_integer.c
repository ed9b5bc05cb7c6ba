/* SPDX-License-Identifier: Apache-2.0 */
/* Branchy integer work: `cpu_integer N [THREADS]` follows the 3n+1 rule, with a shortcut for
 * multiples of three, from each start below N; every thread does all the work. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static uint64_t step(uint64_t x) {
  if (x % 3 == 0) return x / 3;
  if (x & 1) return 3 * x + 1;
  return x >> 1;
}

static void *work(void *argument) {
  uint64_t n = (uint64_t)argument, steps = 0;
  for (uint64_t start = 1; start < n; start++)
    for (uint64_t x = start, k = 0; x > 1 && k < 60; k++, steps++) x = step(x);
  return (void *)steps;
}

int main(int argc, char **argv) {
  uint64_t n = strtoull(argv[1], 0, 10), sum = 0;
  int threads = argc > 2 ? atoi(argv[2]) : 1;
  pthread_t ids[64];
  for (int t = 1; t < threads; t++) pthread_create(&ids[t], 0, work, (void *)n);
  sum += (uint64_t)work((void *)n);
  for (int t = 1; t < threads; t++) {
    void *steps;
    pthread_join(ids[t], &steps);
    sum += (uint64_t)steps;
  }
  printf("%lu\n", sum);
  return 0;
}
