/* SPDX-License-Identifier: Apache-2.0 */
/* Threads run loops of known length in known slices. `cpu_loops THREADS SLICES [gap]`: in slice s
 * thread t runs `spin_loop` 1000 * (t + 1) + 10 * s times, then main (thread 0) launches a kernel.
 * Barriers keep every thread's work of a slice inside it. With `gap`, threads other than main work
 * in even slices only and wait in the others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu_device.h"
#include "cpu_spin.h"

static pthread_barrier_t start, end;
static int slices, gap;

static void turn(long thread, int slice) {
  pthread_barrier_wait(&start);
  if (!gap || thread == 0 || slice % 2 == 0) spin(1000 * (thread + 1) + 10 * slice);
  pthread_barrier_wait(&end);
}

static void *work(void *argument) {
  for (int s = 0; s < slices; s++) turn((long)argument, s);
  return 0;
}

int main(int argc, char **argv) {
  int threads = atoi(argv[1]);
  pthread_t others[256];
  slices = atoi(argv[2]);
  gap = argc > 3;
  pthread_barrier_init(&start, 0, (unsigned)threads);
  pthread_barrier_init(&end, 0, (unsigned)threads);
  for (long t = 1; t < threads; t++) pthread_create(&others[t], 0, work, (void *)t);
  uint32_t kernel = device_start();
  for (int s = 0; s < slices; s++) {
    turn(0, s);
    device_launch(kernel);
  }
  for (long t = 1; t < threads; t++) pthread_join(others[t], 0);
  printf("done\n");
  return 0;
}
