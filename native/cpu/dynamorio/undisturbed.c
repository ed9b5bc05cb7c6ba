/* SPDX-License-Identifier: Apache-2.0 */
/* Some calls fail with EINTR after a handler whether or not it has SA_RESTART: poll(), nanosleep().
 * DynamoRIO handles all signals in Linux, also those that the program blocks or ignores, or leaves
 * to a default action that does nothing: a child that ended cut its parent's sleep() short. They
 * are blocked in Linux during such a call; those that the program blocks only in its sole thread,
 * since Linux would give them to another one, which may end with them. */
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"

/* man 7 signal, and calls with a timeout that Linux goes on with only if no handler has run.
 * Sockets with a timeout are left. */
bool undisturbed_wants(int number) {
  switch (number) {
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_pause:
    case SYS_rt_sigtimedwait:
    case SYS_msgsnd:
    case SYS_msgrcv:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_futex:
      return true;
    default:
      return false;
  }
}

static bool waits_a_time(void *drcontext) {
  const int operation = (int)dr_syscall_get_param(drcontext, 1) & FUTEX_CMD_MASK;
  return (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) &&
         dr_syscall_get_param(drcontext, 3);
}

static const void *parameter(void *drcontext, int i) {
  return (const void *)dr_syscall_get_param(drcontext, i);
}

/* Where the call's own mask lies; NULL: it has none. DynamoRIO takes it off the call. */
static const void *own_mask(void *drcontext, int number) {
  const void *set = NULL;
  if (number == SYS_ppoll) return parameter(drcontext, 3);
  if (number == SYS_epoll_pwait) return parameter(drcontext, 4);
  if (number == SYS_pselect6) dr_safe_read(parameter(drcontext, 5), sizeof set, &set, NULL);
  return set;
}

static uint64_t blocked(void *drcontext, int number) {
  const void *own = own_mask(drcontext, number);
  const uint64_t *blocks = thread_mask(drcontext);
  uint64_t set;
  if (own && dr_safe_read(own, sizeof set, &set, NULL)) return set;
  return blocks ? *blocks : 0;
}

static uint64_t dropped(void *drcontext) {
  const uint64_t by_default =
      signal_bit(SIGCHLD) | signal_bit(SIGCONT) | signal_bit(SIGURG) | signal_bit(SIGWINCH);
  return *thread_ignores(drcontext) | (by_default & ~*thread_handles(drcontext));
}

void undisturbed_before_call(void *drcontext, int number) {
  if (!undisturbed_wants(number) || (number == SYS_futex && !waits_a_time(drcontext))) return;
  const uint64_t blocks = blocked(drcontext, number);
  const uint64_t kept = threads_are_several() ? 0 : blocks & ~waited_written();
  waited_hold(drcontext, (dropped(drcontext) & ~blocks) | kept);
}
