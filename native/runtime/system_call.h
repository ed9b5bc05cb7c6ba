/* SPDX-License-Identifier: Apache-2.0 */
/* Linux system calls of x86-64 without a C library, for code that runs inside other programs: they
 * do not touch errno, and no library of the program can intercept them. */
#ifndef XPUPROF_SYSTEM_CALL_H
#define XPUPROF_SYSTEM_CALL_H

/* Negative results are error numbers of the kernel. */
static inline long xp_system_call6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static inline long xp_system_call(long number, long a, long b, long c, long d) {
  return xp_system_call6(number, a, b, c, d, 0, 0);
}

#endif
