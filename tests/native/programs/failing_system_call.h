/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the place of native/runtime/system_call.h: system calls that can fail, do (faults.c). */
#ifndef FAILING_SYSTEM_CALL_H
#define FAILING_SYSTEM_CALL_H

#include <asm/unistd.h>

#define xp_system_call6 real_system_call6
#define xp_system_call real_system_call
#include "../../../native/runtime/system_call.h"
#undef xp_system_call
#undef xp_system_call6

#include "faults.h"

static const char *const failing_calls[512] = {
    [__NR_open] = "open",       [__NR_mmap] = "mmap",         [__NR_mremap] = "mremap",
    [__NR_madvise] = "madvise", [__NR_truncate] = "truncate", [__NR_mkdir] = "mkdir",
    [__NR_symlink] = "symlink", [__NR_socket] = "socket",     [__NR_sendto] = "sendto",
    [__NR_lstat] = "lstat",     [__NR_fstat] = "fstat",       [__NR_unlink] = "unlink"};

static inline long xp_system_call6(long number, long a, long b, long c, long d, long e, long f) {
  int error = failing_calls[number] ? faults_next(failing_calls[number]) : 0;
  if (error > 0) return -error;
  return real_system_call6(number, a, b, c, d, e, f);
}

static inline long xp_system_call(long number, long a, long b, long c, long d) {
  return xp_system_call6(number, a, b, c, d, 0, 0);
}

#endif
