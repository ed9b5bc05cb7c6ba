/* SPDX-License-Identifier: Apache-2.0 */
/* `cpu_scarce MEGABYTES`: a thread is started when so little memory is left to be mapped. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpu_device.h"
#include "cpu_spin.h"

static size_t mapped(void) {
  size_t pages = 0;
  FILE *sizes = fopen("/proc/self/statm", "r");
  if (!sizes || fscanf(sizes, "%zu", &pages) != 1) abort();
  fclose(sizes);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *work(void *unused) {
  spin(1000);
  return unused;
}

int main(int argc, char **argv) {
  size_t limit = mapped() + ((size_t)atoi(argv[argc - 1]) << 20);
  pthread_attr_t small;
  pthread_t thread;
  uint32_t kernel = device_start();
  device_launch(kernel);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 16);
  setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
  if (pthread_create(&thread, &small, work, NULL)) return 1;
  pthread_join(thread, NULL);
  device_launch(kernel);
  puts("done");
  return 0;
}
