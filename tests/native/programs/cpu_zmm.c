/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors and masks that live in registers through a loop of many blocks: `cpu_zmm [alarms]`. With
 * alarms, signals arrive in it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#define EACH(f)                                                                               \
  f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) \
      f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)
#define MASKS(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define LOAD(n) "vmovdqu64 64*" #n "(%0), %%zmm" #n ";"
#define STORE(n) "vmovdqu64 %%zmm" #n ", 64*" #n "(%1);"
#define LOAD_MASK(n) "kmovw 2*" #n "(%2), %%k" #n ";"
#define STORE_MASK(n) "kmovw %%k" #n ", 2*" #n "(%3);"

static unsigned char before[32 * 64], after[32 * 64];
static unsigned short masks_before[8], masks_after[8];

static volatile int alarms;

static void on_alarm(int number) {
  (void)number;
  alarms++;
}

int main(int argc, char **argv) {
  const struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
  unsigned rounds = 1000000;
  (void)argv;
  if (argc > 1) {
    rounds = 100000000;
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
  }
  for (unsigned i = 0; i < sizeof before; i++) before[i] = (unsigned char)(i * 2654435761u >> 13);
  for (unsigned i = 1; i < 8; i++) masks_before[i] = (unsigned short)(i * 40503u);
  __asm__ volatile(
      EACH(LOAD) MASKS(LOAD_MASK)
      "mov %4, %%ecx; xor %%eax, %%eax;"
      "1: test $1, %%cl; jnz zmm_next;"
      "zmm_even: add $3, %%rax; jmp 2f;"
      "zmm_next: xor $5, %%rax; cmp $77, %%rax; je 2f; add $1, %%rax;"
      "2: dec %%ecx; jnz 1b;"
      EACH(STORE) MASKS(STORE_MASK)
      :
      : "r"(before), "r"(after), "r"(masks_before), "r"(masks_after), "r"(rounds)
      : "rax", "rcx", "memory");
  int kept = !memcmp(before, after, sizeof before) && !memcmp(masks_before, masks_after, 16);
  setitimer(ITIMER_REAL, &never, NULL);
  puts(kept ? "kept" : "lost");
  if (argc > 1) puts(alarms ? "alarms" : "no alarm");
  return !kept;
}
