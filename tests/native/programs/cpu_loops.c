/* Threads run loops of known length in known slices. `cpu_loops THREADS SLICES`: in slice s thread
 * t goes 1000 * (t + 1) + 10 * s times round `spin`, then the main thread launches a kernel. The
 * threads take turns under a lock, so that each slice's work is known. Main is thread 0. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu_device.h"

static pthread_barrier_t start, end;
static int slices;

/* One basic block of 2 instructions, `rounds` times. */
__attribute__((noinline)) void spin(long rounds) {
  __asm__ volatile(".globl spin_loop\nspin_loop:\n  dec %0\n  jnz spin_loop" : "+r"(rounds));
}

static void *work(void *argument) {
  long t = (long)argument;
  for (int s = 0; s < slices; s++) {
    pthread_barrier_wait(&start);
    spin(1000 * (t + 1) + 10 * s);
    pthread_barrier_wait(&end);
  }
  return 0;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  slices = argc > 2 ? atoi(argv[2]) : 3;
  pthread_t others[64];
  pthread_barrier_init(&start, 0, (unsigned)threads);
  pthread_barrier_init(&end, 0, (unsigned)threads);
  for (long t = 1; t < threads; t++) pthread_create(&others[t], 0, work, (void *)t);
  uint32_t kernel = device_start();
  for (int s = 0; s < slices; s++) {
    pthread_barrier_wait(&start);
    spin(1000 + 10 * s);
    pthread_barrier_wait(&end);
    device_launch(kernel);
  }
  for (long t = 1; t < threads; t++) pthread_join(others[t], 0);
  printf("done\n");
  return 0;
}
