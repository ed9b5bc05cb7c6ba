/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process in the background sets its terminal, or reads or writes there, Linux sends it
 * SIGTTOU or SIGTTIN, unless it blocks or ignores the signal. DynamoRIO unblocks and handles both,
 * so such calls failed, or stopped a shell's jobs. They are blocked in Linux during a call. */
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"

static bool is_of_terminals(int number) {
  return number == SYS_ioctl || number == SYS_read || number == SYS_readv || number == SYS_write ||
         number == SYS_writev;
}

void terminal_before_call(void *drcontext, int number) {
  const uint64_t both = signal_bit(SIGTTOU) | signal_bit(SIGTTIN);
  if (is_of_terminals(number)) waited_hold(drcontext, thread_refuses(drcontext) & both);
}
