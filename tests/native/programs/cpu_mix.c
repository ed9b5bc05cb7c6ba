/* SPDX-License-Identifier: Apache-2.0 */
/* Code that translators cut in different places: long runs without a branch, repeated string
 * instructions, loops on the counter register, modes of the floating-point units, pauses. Two
 * threads, three slices; each result is printed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/valgrind.h>

#include "cpu_device.h"

#define TEN(x) x x x x x x x x x x

static unsigned long straight(unsigned long x) { /* 62, 123 and 601 instructions, each in a loop */
  for (int i = 0; i < 9; i++)
    __asm__ volatile(TEN("add $1,%0; rol $3,%0; xor $5,%0; add $7,%0; ror $2,%0; not %0;")
                     : "+r"(x));
  for (int i = 0; i < 7; i++) {
    __asm__ volatile(TEN("add $1,%0; rol $3,%0; xor $5,%0; add $7,%0; ror $2,%0; not %0;")
                     : "+r"(x));
    __asm__ volatile(TEN("add $1,%0; rol $3,%0; xor $5,%0; add $7,%0; ror $2,%0; not %0;")
                     : "+r"(x));
  }
  for (int i = 0; i < 5; i++)
    __asm__ volatile(TEN(TEN("add $1,%0; rol $3,%0; xor $5,%0; add $7,%0; ror $2,%0; not %0;"))
                     : "+r"(x));
  return x;
}

static void copy(char *to, const char *from, long n) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void fill(long *to, long value, long n) {
  __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(value) : "memory");
}

static long same(const char *a, const char *b, long n) { /* rounds left */
  __asm__ volatile("xor %%eax,%%eax; repe cmpsb" : "+S"(a), "+D"(b), "+c"(n) : : "rax", "memory");
  return n;
}

static long scan(const char *text, char wanted, long n) {
  __asm__ volatile("repne scasb" : "+D"(text), "+c"(n) : "a"(wanted) : "memory");
  return n;
}

static long strings(int round) {
  static __thread char a[400], b[400];
  long words[20], left = 0;
  for (int i = 0; i < 400; i++) a[i] = (char)('a' + i % 23);
  for (long n = 0; n < 50; n += 7) {
    copy(b + n, a, n + round);
    fill(words, n, n % 20);
    left += same(a, b + n, 30) + scan(a, 'k', n) + scan(a, 'K', n) + same(a, a, n);
  }
  for (long n = 20; n > 0; n--) left += same(a, b, 0);
  return left + words[0];
}

static long counter_loops(long n) { /* VEX evaluates constants: these are not constant */
  static volatile long three = 3, zero = 0;
  long sum = 0;
  __asm__ volatile(
      "1: add %1,%0; loop 1b; mov %2,%1; jrcxz 2f; add $5,%0; 2: mov %3,%1; jrcxz 3f;"
      "add $100,%0; 3: add $1,%0"
      : "+r"(sum), "+c"(n)
      : "m"(three), "m"(zero));
  return sum;
}

static unsigned modes(void) {
  unsigned short control;
  unsigned vector;
  __asm__ volatile("fnstcw %0; fldcw %0; fldcw %0" : "=m"(control));
  __asm__ volatile("stmxcsr %0; ldmxcsr %0; mov %0,%%eax; ldmxcsr %0" : "=m"(vector) : : "rax");
  for (int i = 0; i < 6; i++) __builtin_ia32_pause();
  for (int i = 0; i < 11; i++) VALGRIND_DO_CLIENT_REQUEST_STMT(0x1234, i, 0, 0, 0, 0);
  return control ^ vector;
}

static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static long sorted(int n) {
  int values[200];
  long sum = 0;
  for (int i = 0; i < n; i++) values[i] = i * 7919 % 1009;
  qsort(values, (size_t)n, sizeof *values, order);
  for (int i = 0; i < n; i++) sum += (long)i * values[i];
  return sum;
}

static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

static pthread_barrier_t turn;
static unsigned long results[2];

static void work(int thread, int round) {
  unsigned long r = straight((unsigned long)round + 1);
  r += (unsigned long)(strings(round) + counter_loops(10 + thread) + sorted(100 + 20 * round));
  results[thread] += r + modes() + (unsigned long)fibonacci(10 + round);
}

static void *other(void *unused) {
  for (int round = 0; round < 3; round++) {
    pthread_barrier_wait(&turn);
    work(1, round);
    pthread_barrier_wait(&turn);
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_barrier_init(&turn, 0, 2);
  uint32_t kernel = device_start();
  pthread_create(&thread, 0, other, 0);
  for (int round = 0; round < 3; round++) {
    pthread_barrier_wait(&turn);
    work(0, round);
    pthread_barrier_wait(&turn);
    device_launch(kernel);
  }
  pthread_join(thread, 0);
  printf("%lx %lx\n", results[0], results[1]);
  return 0;
}
