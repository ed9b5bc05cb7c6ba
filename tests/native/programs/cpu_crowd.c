/* SPDX-License-Identifier: Apache-2.0 */
/* `cpu_crowd THREADS`: so many exist at the same time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all;

static void *work(void *unused) {
  pthread_barrier_wait(&all);
  return unused;
}

int main(int argc, char **argv) {
  int n = atoi(argv[argc - 1]);
  pthread_t *threads = calloc((size_t)n, sizeof *threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 16);
  pthread_barrier_init(&all, NULL, (unsigned)n);
  for (int i = 0; i < n; i++)
    if (pthread_create(&threads[i], &small, work, NULL)) return 1;
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  puts("done");
  return 0;
}
