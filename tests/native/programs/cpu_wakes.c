/* SPDX-License-Identifier: Apache-2.0 */
/* Hot loops around a function that begins with a system call: hot code that goes on through code
 * that is hot already. Prints what the calls gave. */
#include <stdio.h>

__attribute__((noinline)) long wake(void);
__asm__(
    ".text\n"
    ".type wake, @function\n"
    "wake:\n" /* futex(&nobody, FUTEX_WAKE_PRIVATE, 1) */
    "  mov $202, %eax; lea nobody(%rip), %rdi; mov $129, %esi; mov $1, %edx\n"
    "  syscall\n"
    "  ret\n"
    ".size wake, .-wake\n"
    ".local nobody\n"
    ".comm nobody, 4, 4\n");

/* The number keeps the compiler from making one function of all. */
#define LOOP(n)                                               \
  __attribute__((noinline)) static long loop##n(int rounds) { \
    long sum = 0;                                             \
    for (int i = 0; i < rounds; i++) sum += wake() + n;       \
    return sum;                                               \
  }
#define TEN(with, d)                                                                      \
  with(d##0) with(d##1) with(d##2) with(d##3) with(d##4) with(d##5) with(d##6) with(d##7) \
      with(d##8) with(d##9)

TEN(LOOP, 1)
TEN(LOOP, 2)
TEN(LOOP, 3)

#define CALL(n) +loop##n(200)

int main(void) {
  printf("%ld\n", TEN(CALL, 1) TEN(CALL, 2) TEN(CALL, 3));
  return 0;
}
