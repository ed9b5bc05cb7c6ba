/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads sweep over their own lines, twice per slice: thread t in slice s over 1100 * (t + 1)
 * + 64 * s lines, so that the second sweep's distances are known. */
#include <pthread.h>
#include <stdlib.h>

#include "cpu_device.h"

enum { SLICES = 3, LINES = 4096 };
static char lines[2][LINES][64] __attribute__((aligned(64)));
static pthread_barrier_t start, end;

static void sweep(char (*line)[64], long n) {
  for (char(*last)[64] = line + n; line != last; line++)
    __asm__ volatile("incb %0" : "+m"((*line)[0]));
}

static void *work(void *argument) {
  long t = (long)argument;
  for (long s = 0; s < SLICES; s++) {
    pthread_barrier_wait(&start);
    for (int twice = 0; twice < 2; twice++) sweep(lines[t], 1100 * (t + 1) + 64 * s);
    pthread_barrier_wait(&end);
  }
  return 0;
}

int main(void) {
  pthread_t other;
  pthread_barrier_init(&start, 0, 2);
  pthread_barrier_init(&end, 0, 2);
  pthread_create(&other, 0, work, (void *)1);
  uint32_t kernel = device_start();
  for (long s = 0; s < SLICES; s++) {
    pthread_barrier_wait(&start);
    for (int twice = 0; twice < 2; twice++) sweep(lines[0], 1100 + 64 * s);
    pthread_barrier_wait(&end);
    device_launch(kernel);
  }
  pthread_join(other, 0);
  return 0;
}
