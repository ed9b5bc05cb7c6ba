/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that somebody sends, of numbers that faults may have. DynamoRIO delivers them at once. In
 * the middle of the code that counts it cannot tell the program's state, and went on at address 0;
 * in its own code it takes some for its own faults, and ends the process. Such a signal comes again
 * a little later. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "client.h"
#include "system_call.h"

/* Without SIGILL, by which DynamoRIO stops threads. */
static bool comes_at_once(int number) {
  switch (number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGTRAP:
    case SIGABRT:
    case SIGPIPE:
    case SIGSTKFLT:
    case SIGXCPU:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

bool sent_seems_fault(int number, const siginfo_t *info) {
  return number == SIGXCPU || (info->si_code <= 0 && (number == SIGSEGV || number == SIGBUS));
}

static bool is_in_engine(const byte *pc) {
  static dr_mem_info_t engine;
  if (!engine.size) dr_query_memory_ex((const byte *)signal_dynamorios_handler(), &engine);
  return signal_came_between((uint64_t)pc, __ehdr_start, etext) ||
         (size_t)(pc - engine.base_pc) < engine.size;
}

static char ours; /* its address marks our timers */

void sent_come_again(int number, unsigned ms) {
  struct sigevent event = {.sigev_signo = number, .sigev_notify = SIGEV_THREAD_ID};
  const struct itimerspec later = {.it_value = {0, ms * 1000000l}};
  int timer;
  event.sigev_value.sival_ptr = &ours;
  event._sigev_un._tid = (int)xp_system_call(SYS_gettid, 0, 0, 0, 0);
  if (xp_system_call(SYS_timer_create, CLOCK_MONOTONIC, (long)&event, (long)&timer, 0) == 0)
    xp_system_call(SYS_timer_settime, timer, 0, (long)&later, 0);
}

/* In a handler. True: it will come again. */
bool sent_too_early(int number, const siginfo_t *info, const byte *pc) {
  enum { MOST = 200 };
  static int in_turn;
  if (!comes_at_once(number) || (info->si_code > 0 && number != SIGXCPU)) return false;
  if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &ours)
    xp_system_call(SYS_timer_delete, info->si_timerid, 0, 0, 0);
  const bool early =
      counting_is_under_way(pc) || (sent_seems_fault(number, info) && is_in_engine(pc));
  if (!early || ++in_turn > MOST) {
    in_turn = 0;
    return false;
  }
  sent_come_again(number, 1);
  return true;
}
