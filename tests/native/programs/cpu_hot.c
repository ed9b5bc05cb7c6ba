/* SPDX-License-Identifier: Apache-2.0 */
/* Hot code that leaves its loops in every possible way: varying branches, calls and returns
 * (direct, by pointer, recursive), a jump table, system calls, a kernel launch, and faults of three
 * kinds, some fixed by the handler and some left by a jump. */
#define _GNU_SOURCE /* REG_RDI */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "cpu_device.h"

enum { ROUNDS = 20000 };

static sigjmp_buf back;
static int *readable, *unreadable;
static volatile int faults;

/* A read through rdi is fixed and repeated; any other fault is left by a jump. */
static void on_fault(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  faults++;
  if (number == SIGSEGV && info->si_addr == unreadable)
    registers[REG_RDI] = (greg_t)readable;
  else
    siglongjmp(back, 1);
}

static uint32_t seed = 1, sum;

static uint32_t next(void) { return seed = seed * 1664525u + 1013904223u; }

static __attribute__((noinline)) uint32_t odd(uint32_t x) { return x % 3 ? 3 * x + 1 : x / 3; }
static __attribute__((noinline)) uint32_t even(uint32_t x) { return x & 1 ? x + 7 : x >> 1; }
static uint32_t (*const either[])(uint32_t) = {odd, even};

static __attribute__((noinline)) uint32_t depth(uint32_t x, int left) {
  return left ? depth(x ^ (uint32_t)left, left - 1) + 1 : x;
}

static __attribute__((noinline)) uint32_t table(uint32_t x) {
  switch (x >> 8 & 7) {
    case 0:
      return x * 3;
    case 1:
      return x ^ 0x55;
    case 2:
      return odd(x);
    case 3:
      return x + 11;
    case 4:
      return even(x);
    case 5:
      return x - 9;
    case 6:
      return ~x;
    default:
      return x << 1;
  }
}

static uint32_t call_system(uint32_t x) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getppid) : "rcx", "r11", "memory");
  return result > 0 ? x + 1 : x;
}

/* In the middle of a block of a hot loop: `mov (%rdi), ...` of a page that may not be read, for
 * one round in 32; a division that is by zero in one of 64; a store to nowhere in one of 128. */
static __attribute__((noinline)) uint32_t touch(uint32_t x) {
  const int *from = x >> 10 & 31 ? readable : unreadable;
  uint32_t sum = 0, by = x >> 16 & 63;
  for (int i = 0; i < 3; i++) {
    uint32_t got;
    sum += x >> i & 1 ? 5u : 3u;
    __asm__ volatile("mov (%1), %0" : "=r"(got), "+D"(from));
    sum += got;
  }
  __asm__ volatile("xor %%edx, %%edx; divl %1" : "+a"(sum) : "r"(by) : "rdx", "cc");
  if (!(x >> 20 & 127)) *(volatile int *)16 = 1;
  return sum;
}

static __attribute__((noinline)) void one_round(uint32_t x, int number) {
  if (sigsetjmp(back, 0)) return;
  sum += either[x >> 5 & 1](x) + table(x) + depth(x, (int)(x >> 12 & 7));
  if (!(x >> 3 & 15)) sum = call_system(sum);
  if (number % 3 == 0) sum += touch(x);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  readable = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unreadable = readable + 1024;
  mprotect(unreadable, 4096, PROT_NONE);
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGFPE, &action, 0);
  uint32_t kernel = device_start();
  for (int number = 0; number < ROUNDS; number++) {
    one_round(next(), number);
    if (number % 100 == 99) device_launch(kernel);
  }
  printf("%d faults, %u\n", faults, sum);
  return 0;
}
