/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process in the background sets its terminal, or reads or writes there, Linux sends it
 * SIGTTOU or SIGTTIN, unless it blocks or ignores the signal. DynamoRIO unblocks and handles both,
 * so such calls failed, or stopped a shell's jobs. They are blocked in Linux during a call. */
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

static uint64_t bit(int number) { return (uint64_t)1 << (number - 1); }

static bool is_of_terminals(int number) {
  return number == SYS_ioctl || number == SYS_read || number == SYS_readv || number == SYS_write ||
         number == SYS_writev;
}

void terminal_before_call(void *drcontext, int number) {
  const uint64_t set = thread_refuses(drcontext) & (bit(SIGTTOU) | bit(SIGTTIN));
  uint64_t before = 0, *held = thread_held(drcontext);
  if (!set || !held || !is_of_terminals(number)) return;
  xp_system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&set, (long)&before, sizeof set);
  *held = set & ~before;
}

void terminal_after_call(void *drcontext) {
  uint64_t *held = thread_held(drcontext);
  if (!held || !*held) return;
  xp_system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)held, 0, sizeof *held);
  *held = 0;
}
