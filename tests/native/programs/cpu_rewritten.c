/* SPDX-License-Identifier: Apache-2.0 */
/* Code that is rewritten before each call, and faults. Prints the sum of its results and the number
 * of faults. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, STORE = 7 };

/* The first instruction's constant is rewritten; the second one faults and is passed over. */
int add(int to);
__asm__(
    ".text\n"
    ".balign 4096\n"
    ".type add, @function\n"
    "add:\n"
    "  mov $0, %eax\n"
    "  mov %edi, 16\n"
    "  add %edi, %eax\n"
    "  ret\n"
    ".size add, .-add\n"
    ".balign 4096\n");

static volatile int faults;

static void pass_over(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  faults++;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += STORE;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = pass_over, .sa_flags = SA_SIGINFO};
  unsigned char *code = (unsigned char *)(void *)add;
  long sum = 0;
  sigaction(SIGSEGV, &action, 0);
  mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
  for (int i = 0; i < 1000; i++) {
    code[1] = (unsigned char)i;
    sum += add(i);
  }
  printf("%ld, %d faults\n", sum, faults);
  return 0;
}
