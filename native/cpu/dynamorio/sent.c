/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that somebody sends, of numbers that faults may have. DynamoRIO delivers them at once. In
 * the middle of the code that counts it cannot tell the program's state, and went on at address 0;
 * in its own code it takes some for its own faults, and ends the process. Such a signal comes again
 * a little later, as it was. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "client.h"
#include "system_call.h"

/* Those under way; handlers use them, so they have no lock. */
enum { MAX_SENT = 32 };
static struct sent {
  int used;
  siginfo_t info;
} under_way[MAX_SENT];

static dr_mem_info_t engine; /* DynamoRIO's own code */

void sent_begin(const byte *handler) { dr_query_memory_ex(handler, &engine); }

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
  return signal_came_between((uint64_t)pc, __ehdr_start, etext) ||
         (size_t)(pc - engine.base_pc) < engine.size;
}

static struct sent *keep(const siginfo_t *info) {
  for (struct sent *s = under_way; s < under_way + MAX_SENT; s++) {
    if (__atomic_exchange_n(&s->used, 1, __ATOMIC_ACQUIRE)) continue;
    s->info = *info;
    return s;
  }
  return NULL;
}

static void forget(struct sent *s) { __atomic_store_n(&s->used, 0, __ATOMIC_RELEASE); }

static bool start_timer(struct sent *s, unsigned ms) {
  struct sigevent event = {.sigev_signo = s->info.si_signo, .sigev_notify = SIGEV_THREAD_ID};
  const struct itimerspec later = {.it_value = {0, ms * 1000000l}};
  int timer;
  event.sigev_value.sival_ptr = s;
  event._sigev_un._tid = (int)xp_system_call(SYS_gettid, 0, 0, 0, 0);
  if (xp_system_call(SYS_timer_create, CLOCK_MONOTONIC, (long)&event, (long)&timer, 0) != 0)
    return false;
  return xp_system_call(SYS_timer_settime, timer, 0, (long)&later, 0) == 0;
}

bool sent_come_again(const siginfo_t *info, unsigned ms) {
  struct sent *s = keep(info);
  if (s && start_timer(s, ms)) return true;
  if (s) forget(s);
  return false;
}

void sent_returns(siginfo_t *info) {
  struct sent *s = info->si_value.sival_ptr;
  if (info->si_code != SI_TIMER || s < under_way || s >= under_way + MAX_SENT) return;
  xp_system_call(SYS_timer_delete, info->si_timerid, 0, 0, 0);
  *info = s->info;
  forget(s);
}

/* In a handler. True: it will come again. */
bool sent_too_early(const siginfo_t *info, const byte *pc) {
  enum { MOST = 200 };
  static int in_turn;
  const int number = info->si_signo;
  if (!comes_at_once(number) || (info->si_code > 0 && number != SIGXCPU)) return false;
  const bool early =
      counting_is_under_way(pc) || (sent_seems_fault(number, info) && is_in_engine(pc));
  if (early && ++in_turn <= MOST && sent_come_again(info, 1)) return true;
  in_turn = 0;
  return false;
}
