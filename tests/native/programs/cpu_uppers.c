/* SPDX-License-Identifier: Apache-2.0 */
/* A loop of SSE arithmetic while upper halves of vector registers are zero, or one of them is not.
 * Argument 1: bytes that a register has, 32 or 64. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 16, LONGEST = 64, LOWER = 16, ROUNDS = 40000, NONE = -1 };

#define EACH(f, file)                                                                        \
  f(0, file) f(1, file) f(2, file) f(3, file) f(4, file) f(5, file) f(6, file) f(7, file) f( \
      8, file) f(9, file) f(10, file) f(11, file) f(12, file) f(13, file) f(14, file) f(15, file)
#define LOAD(n, file) "vmovups 64*" #n "(%1), %%" file #n ";"
#define STORE(n, file) "vmovups %%" file #n ", 64*" #n "(%2);"
#define ADD(name) name ": addsd %%xmm1, %%xmm0; sub $1, %%ecx; jnz " name ";"
#define STATES "mov $1, %%ecx; xgetbv; mov %%eax, %0;"
#define LOOP(file, name)                                                                   \
  "vzeroupper;" EACH(LOAD, file) "mov $40000, %%ecx; jmp " name ";" ADD(name) STATES EACH( \
      STORE, file) "vzeroupper"

static unsigned char before[REGISTERS][LONGEST], after[REGISTERS][LONGEST];

/* Sums up 40,000 ones; returns which states the processor takes for used. */
__attribute__((noinline)) static uint32_t loop(int size) {
  uint32_t used;
  if (size == LONGEST)
    __asm__ volatile(LOOP("zmm", "zmm_loop")
                     : "=&r"(used)
                     : "r"(before), "r"(after)
                     : "rax", "rcx", "rdx", "memory");
  else
    __asm__ volatile(LOOP("ymm", "ymm_loop")
                     : "=&r"(used)
                     : "r"(before), "r"(after)
                     : "rax", "rcx", "rdx", "memory");
  return used;
}

int main(int argc, char **argv) {
  int size = argc > 1 ? atoi(argv[1]) : 32, lost = 0;
  uint32_t used = 0;
  /* The last passes execute known code alone, and all of it in traces where there are any. */
  for (int n = 0; n < REGISTERS + 70; n++) {
    int holder = n < REGISTERS ? n : NONE;
    memset(before, 0, sizeof before);
    if (holder != NONE) before[holder][n % 2 ? size - 1 : LOWER] = 1;
    memcpy(before[1], &(double){1}, sizeof(double));
    used = loop(size);
    double sum;
    memcpy(&sum, after[0], sizeof sum);
    lost |= sum != ROUNDS;
    for (int r = 0; r < REGISTERS; r++)
      lost |= memcmp(before[r] + LOWER, after[r] + LOWER, (size_t)(size - LOWER)) != 0;
  }
  enum { AVX_STATE = 4 };
  printf("%s, %s\n", lost ? "lost" : "kept", used & AVX_STATE ? "used" : "released");
  return 0;
}
