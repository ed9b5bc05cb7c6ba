/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>

#include "select.h"

#define MAX_THREADS 16

struct crew {
  atomic_uint_fast64_t next;
  uint64_t parts;
  void (*work)(void *, uint64_t);
  void *context;
};

static void *labour(void *argument) {
  struct crew *crew = argument;
  for (;;) {
    uint64_t part = atomic_fetch_add(&crew->next, 1);
    if (part >= crew->parts) return NULL;
    crew->work(crew->context, part);
  }
}

void xps_parallel(uint32_t threads, uint64_t parts, void (*work)(void *, uint64_t), void *context) {
  struct crew crew = {.parts = parts, .work = work, .context = context};
  pthread_t helper[MAX_THREADS];
  uint32_t helpers = 0;
  uint64_t useful = parts < threads ? parts : threads;
  atomic_init(&crew.next, 0);
  while (helpers + 1 < useful && helpers < MAX_THREADS) {
    /* If no thread can be created, the caller does its part. */
    if (pthread_create(&helper[helpers], NULL, labour, &crew)) break;
    helpers++;
  }
  labour(&crew);
  for (uint32_t i = 0; i < helpers; i++) pthread_join(helper[i], NULL);
}
