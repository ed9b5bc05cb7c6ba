/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the place of native/runtime/system_call.h: system calls that can fail, do (faults.c). */
#ifndef XPUPROF_SYSTEM_CALL_H
#define XPUPROF_SYSTEM_CALL_H

#include <asm/unistd.h>

#include "faults.h"

static const char *const failing_calls[512] = {
    [__NR_open] = "open",       [__NR_mmap] = "mmap",         [__NR_mremap] = "mremap",
    [__NR_madvise] = "madvise", [__NR_truncate] = "truncate", [__NR_mkdir] = "mkdir",
    [__NR_symlink] = "symlink", [__NR_socket] = "socket",     [__NR_sendto] = "sendto",
    [__NR_lstat] = "lstat",     [__NR_fstat] = "fstat",       [__NR_unlink] = "unlink"};

static inline long xp_system_call6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  int error = failing_calls[number] ? faults_next(failing_calls[number]) : 0;
  if (error > 0) return -error;
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
