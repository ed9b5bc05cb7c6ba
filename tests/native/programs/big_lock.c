/* SPDX-License-Identifier: Apache-2.0 */
/* The Valgrind tool's lock under threads that all want it. `big_lock THREADS TURNS`: each thread
 * takes it TURNS times; prints how often it was taken, and ends by SIGABRT if two threads had it at
 * once. With two slots most threads share one with others. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system_call.h"

/* A thread that goes to sleep takes its time, so that others do something in between. */
static long late_system_call(long number, long a, long b, long c, long d) {
  if (number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT) usleep(50);
  return xp_system_call(number, a, b, c, d);
}

#define xp_system_call late_system_call
#define SLOTS 2u
#include "lock.c"

static sched_lock *lock;
static pthread_barrier_t start;
static volatile int inside;
static long taken;
static int turns;

Int VG_(gettid)(void) { return (Int)syscall(SYS_gettid); }

void VG_(assert_fail)(Bool core, const HChar *what, const HChar *file, Int line,
                      const HChar *function, const HChar *format, ...) {
  (void)core, (void)file, (void)line, (void)function, (void)format;
  fprintf(stderr, "%s\n", what);
  abort();
}

static void *work(void *unused) {
  pthread_barrier_wait(&start);
  for (int turn = 0; turn < turns; turn++) {
    __wrap_vgModuleLocal_acquire_sched_lock(lock);
    if (inside++) abort();
    taken++;
    for (volatile int i = 0; i < 2000; i++) /* long enough for others to wait */
      ;
    inside--;
    __wrap_vgModuleLocal_release_sched_lock(lock);
  }
  return unused;
}

int main(int argc, char **argv) {
  int threads = argc > 2 ? atoi(argv[1]) : 0;
  pthread_t thread[1000];
  turns = argc > 2 ? atoi(argv[2]) : 0;
  alarm(120); /* a thread that nobody wakes */
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  lock = __wrap_vgModuleLocal_create_sched_lock();
  for (int t = 0; t < threads; t++) pthread_create(&thread[t], NULL, work, NULL);
  for (int t = 0; t < threads; t++) pthread_join(thread[t], NULL);
  printf("%ld\n", taken);
  return 0;
}
