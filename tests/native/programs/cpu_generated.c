/* SPDX-License-Identifier: Apache-2.0 */
/* Generated code that is hard to instrument: an exit of a hot loop leads to code that is written
 * later and reads registers that the first code there did not; and a process forks while one of its
 * threads generates and runs code. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static unsigned char *pages(int n) {
  return mmap(0, (size_t)n * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
              -1, 0);
}

/* eax = 7, ecx = 9, edx = 11; counts edi down to 0, or to esi: then on to the third page. */
static const unsigned char loop[] = {0xb8, 7,    0,    0, 0,    0xb9, 9,    0,    0,    0,    0xba,
                                     11,   0,    0,    0, 0x39, 0xf7, 0x0f, 0x84, 0xe9, 0x1f, 0,
                                     0,    0x83, 0xef, 1, 0x75, 0xf3, 0x01, 0xc8, 0x01, 0xd0, 0xc3};
static const unsigned char clear[] = {0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0xc3};
static const unsigned char add[] = {0x01, 0xc8, 0x01, 0xd0, 0xc3}; /* eax + ecx + edx */

static void patched(void) {
  unsigned char *code = pages(3);
  int (*run)(int, int) = (int (*)(int, int))(void *)code;
  long sum = 0;
  mprotect(code + PAGE, PAGE, PROT_NONE); /* the pages after it are a separate region */
  memcpy(code, loop, sizeof loop);
  memcpy(code + 2 * PAGE, clear, sizeof clear);
  for (int i = 0; i < 2000; i++) sum += run(50, -1);
  memcpy(code + 2 * PAGE, add, sizeof add);
  for (int i = 0; i < 100; i++) sum += run(50, 25);
  printf("%ld\n", sum);
}

static atomic_bool stop;

/* Forty blocks: eax = edi + n; jump to the next. */
static void *generate(void *argument) {
  for (unsigned char n = 0; !stop; n++) {
    unsigned char *code = pages(1), *at = code;
    int (*run)(int) = (int (*)(int))(void *)code;
    for (int block = 0; block < 40; block++, at += 5)
      memcpy(at, (unsigned char[]){0x8d, 0x47, n & 127, 0xeb, 0}, 5);
    *at = 0xc3;
    for (int i = 0; i < 300; i++) run(i);
    munmap(code, PAGE);
  }
  return argument;
}

static void forks(void) {
  pthread_t threads[2];
  int failed = 0;
  for (int t = 0; t < 2; t++) pthread_create(&threads[t], 0, generate, 0);
  for (int i = 0; i < 60; i++) {
    int status = 0;
    pid_t child = fork();
    if (!child) {
      pthread_t own;
      stop = 1;
      pthread_create(&own, 0, generate, 0);
      pthread_join(own, 0);
      _exit(0);
    }
    failed += waitpid(child, &status, 0) != child || status;
  }
  stop = 1;
  for (int t = 0; t < 2; t++) pthread_join(threads[t], 0);
  printf("%d failed\n", failed);
}

int main(void) {
  setvbuf(stdout, 0, _IONBF, 0);
  patched();
  forks();
  return 0;
}
