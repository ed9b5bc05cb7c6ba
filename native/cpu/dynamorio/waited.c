/* SPDX-License-Identifier: Apache-2.0 */
/* DynamoRIO unblocks all signals in Linux, and keeps those that the program blocks. So sigwait()
 * and sigpending() did not find them, and one for the whole process went to a thread that blocks it
 * while another one waited for it. We note what arrives blocked, let those calls find it, and hand
 * it to a thread that waits. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

/* Handlers use both tables, so they have no lock, and a fixed size. What finds no place is
 * DynamoRIO's alone. */
enum { MAX_ARRIVALS = 256, MAX_WAITS = 256 };
enum { REAL_TIME = 32 }; /* signals from this one on */

/* DynamoRIO keeps it, perhaps although a call has answered it; or it was sent on to a thread. */
enum { FREE, BUSY, SENT_ON, KEPT, ANSWERED };

static struct arrival {
  int state;
  int number;
  bool for_process;
  thread_id_t thread; /* that DynamoRIO keeps it for; 0: it ended */
  uint64_t order;
  siginfo_t info;
} arrivals[MAX_ARRIVALS];

static struct wait {
  thread_id_t thread; /* 0: none */
  uint64_t set;
  uint64_t unblock; /* what was unblocked in Linux */
} waits[MAX_WAITS];

static uint64_t n_arrived;
static bool come_first;
static uint64_t read_by_descriptor; /* DynamoRIO has these signals written there */

static thread_id_t own_thread(void) { return (thread_id_t)xp_system_call(SYS_gettid, 0, 0, 0, 0); }

static bool change(int *state, int from, int to) {
  return __atomic_compare_exchange_n(state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static int state_of(const struct arrival *a) {
  return __atomic_load_n(&a->state, __ATOMIC_SEQ_CST);
}

/* ---- arrivals ----------------------------------------------------------------------------------
 */

static bool is_for(const struct arrival *a, thread_id_t thread) {
  return a->for_process || a->thread == thread;
}

static void set_state(struct arrival *a, int state) {
  __atomic_store_n(&a->state, state, __ATOMIC_SEQ_CST);
}

/* The first of these kept signals that the thread may have. */
static struct arrival *first_kept(uint64_t set, thread_id_t thread) {
  struct arrival *first = NULL;
  for (struct arrival *a = arrivals; a < arrivals + MAX_ARRIVALS; a++)
    if (state_of(a) == KEPT && (set & signal_bit(a->number)) && is_for(a, thread) &&
        (!first || a->number < first->number ||
         (a->number == first->number && a->order < first->order)))
      first = a;
  return first;
}

static struct arrival *own(int number, thread_id_t thread, int state) {
  for (struct arrival *a = arrivals; a < arrivals + MAX_ARRIVALS; a++)
    if (state_of(a) == state && a->number == number && a->thread == thread) return a;
  return NULL;
}

/* Not of a call or a fault of the thread. */
static bool is_for_process(int number, const siginfo_t *info) {
  return info->si_code != SI_TKILL && number != SIGPIPE;
}

static bool is_kept(int number, bool for_process, thread_id_t thread) {
  for (struct arrival *a = arrivals; a < arrivals + MAX_ARRIVALS; a++)
    if (state_of(a) == KEPT && a->number == number && a->for_process == for_process &&
        (for_process || a->thread == thread))
      return true;
  return false;
}

/* Linux keeps one signal of a number, but all real-time ones. DynamoRIO keeps one for each thread,
 * perhaps one that a call has answered: it stands for the new one. */
static struct arrival *place(int number, thread_id_t thread) {
  enum { MOST_REAL_TIME = MAX_ARRIVALS / 2 };
  struct arrival *answered = number < REAL_TIME ? own(number, thread, ANSWERED) : NULL;
  if (answered && change(&answered->state, ANSWERED, BUSY)) return answered;
  const int room = number < REAL_TIME ? MAX_ARRIVALS : MOST_REAL_TIME;
  for (struct arrival *a = arrivals; a < arrivals + room; a++)
    if (change(&a->state, FREE, BUSY)) return a;
  return NULL;
}

static struct arrival *note(int number, const siginfo_t *info, thread_id_t thread) {
  const bool for_process = is_for_process(number, info);
  if (number < REAL_TIME && is_kept(number, for_process, thread)) return NULL;
  struct arrival *a = place(number, thread);
  if (!a) return NULL;
  a->number = number;
  a->for_process = for_process;
  a->thread = thread;
  a->order = __atomic_fetch_add(&n_arrived, 1, __ATOMIC_RELAXED);
  a->info = *info;
  set_state(a, KEPT);
  return a;
}

static thread_id_t waiter_for(int number) {
  for (struct wait *w = waits; w < waits + MAX_WAITS; w++) {
    const thread_id_t thread = __atomic_load_n(&w->thread, __ATOMIC_SEQ_CST);
    if (thread && (w->set & signal_bit(number))) return thread;
  }
  return 0;
}

/* Linux lets nobody send it with what it holds. False: the thread has gone. */
static bool send_on(struct arrival *a, thread_id_t to) {
  const thread_id_t from = a->thread;
  a->thread = to;
  set_state(a, SENT_ON);
  if (xp_system_call(SYS_tgkill, (long)dr_get_process_id(), (long)to, a->number, 0) == 0)
    return true;
  a->thread = from;
  set_state(a, KEPT);
  return false;
}

/* In a handler. True: DynamoRIO must not see the signal. */
bool waited_arrives(int number, const siginfo_t *info) {
  void *drcontext = dr_get_current_drcontext();
  const uint64_t *blocks = drcontext ? thread_blocks(drcontext) : NULL;
  if (!blocks || signal_is_of_code(number)) return false;
  const thread_id_t thread = own_thread();
  struct arrival *a = own(number, thread, SENT_ON); /* as it arrived at first */
  const uint64_t wanted = ~waited_written() & signal_bit(number);
  if (!(*blocks & wanted)) {
    if (a) set_state(a, FREE);
    return false;
  }
  if (a)
    set_state(a, KEPT);
  else
    a = note(number, info, thread);
  const thread_id_t waiter = a && a->for_process ? waiter_for(number) : 0;
  if (!waiter) return false;
  if (change(&a->state, KEPT, BUSY)) return send_on(a, waiter);
  set_state(a, FREE); /* a call has just answered it */
  return true;
}

/* DynamoRIO delivers it. True: a call has answered it. */
bool waited_was_answered(void *drcontext, int number) {
  const thread_id_t thread = dr_get_thread_id(drcontext);
  struct arrival *a = own(number, thread, ANSWERED);
  if (a) {
    set_state(a, FREE);
    return true;
  }
  if ((a = first_kept(signal_bit(number), thread))) change(&a->state, KEPT, FREE);
  return false;
}

/* ---- calls -------------------------------------------------------------------------------------
 */

static bool read_set(const void *from, size_t size, uint64_t *set) {
  return size == sizeof *set && dr_safe_read(from, sizeof *set, set, NULL);
}

static void see_what_comes(void *drcontext) {
  const uint64_t *blocks = thread_blocks(drcontext);
  if (come_first || !blocks || !*blocks) return;
  signals_come_first();
  come_first = true;
}

void waited_mask(void *drcontext, int how, const void *from, size_t size) {
  uint64_t set, *blocks = thread_mask(drcontext);
  if (!blocks || !from || !read_set(from, size, &set)) return;
  if (how == SIG_BLOCK) *blocks |= set;
  if (how == SIG_UNBLOCK) *blocks &= ~set;
  if (how == SIG_SETMASK) *blocks = set;
  see_what_comes(drcontext);
}

void waited_descriptor(const void *mask, size_t size) {
  uint64_t set;
  if (read_set(mask, size, &set)) __atomic_fetch_or(&read_by_descriptor, set, __ATOMIC_RELAXED);
}

uint64_t waited_written(void) { return __atomic_load_n(&read_by_descriptor, __ATOMIC_RELAXED); }

void waited_after_pending(void *drcontext, void *to, size_t size) {
  const thread_id_t thread = dr_get_thread_id(drcontext);
  uint64_t set;
  if ((long)dr_syscall_get_result(drcontext) < 0 || !read_set(to, size, &set)) return;
  for (struct arrival *a = arrivals; a < arrivals + MAX_ARRIVALS; a++)
    if (state_of(a) == KEPT && is_for(a, thread)) set |= signal_bit(a->number);
  dr_safe_write(to, sizeof set, &set, NULL);
}

/* DynamoRIO stops threads by SIGILL. */
static uint64_t may_be_blocked(uint64_t set) {
  for (int i = 1; i <= XPU_SIGNALS; i++)
    if (signal_is_of_code(i) || i == SIGSYS) set &= ~signal_bit(i);
  return set;
}

static void mask(int how, uint64_t set, uint64_t *before) {
  xp_system_call(SYS_rt_sigprocmask, how, (long)&set, (long)before, sizeof set);
}

static struct wait *begin(uint64_t set) {
  const thread_id_t thread = own_thread();
  for (struct wait *w = waits; w < waits + MAX_WAITS; w++) {
    uint64_t before = 0;
    if (w->thread || !change(&w->thread, 0, thread)) continue;
    set = may_be_blocked(set);
    mask(SIG_BLOCK, set, &before);
    w->unblock = set & ~before;
    __atomic_store_n(&w->set, set, __ATOMIC_SEQ_CST);
    return w;
  }
  return NULL;
}

static void end(struct wait *w) {
  const uint64_t unblock = w->unblock;
  w->set = w->unblock = 0;
  __atomic_store_n(&w->thread, 0, __ATOMIC_SEQ_CST);
  mask(SIG_UNBLOCK, unblock, NULL);
}

static void end_of(thread_id_t thread) {
  for (struct wait *w = waits; w < waits + MAX_WAITS; w++)
    if (w->thread == thread) {
      end(w);
      return;
    }
}

/* DynamoRIO stops threads by SIGILL, which is not blocked: a call that waits for it would take it
 * from DynamoRIO, whose other thread waits for ever. */
static void leave_out_dynamorios(void *drcontext, uint64_t set) {
  suspension *s = thread_suspension(drcontext);
  if (!s || !(set & signal_bit(SIGILL)) || set == signal_bit(SIGILL)) return;
  s->set = set & ~signal_bit(SIGILL);
  s->arguments[0] = dr_syscall_get_param(drcontext, 0);
  dr_syscall_set_param(drcontext, 0, (reg_t)&s->set);
}

static void restore_set(void *drcontext) {
  dr_mcontext_t registers = {.size = sizeof registers, .flags = DR_MC_INTEGER};
  suspension *s = thread_suspension(drcontext);
  if (!s || !s->set) return;
  s->set = 0;
  dr_get_mcontext(drcontext, &registers);
  registers.xdi = s->arguments[0];
  dr_set_mcontext(drcontext, &registers);
}

void waited_after_wait(void *drcontext, void *to) {
  const thread_id_t thread = own_thread();
  const long number = (long)dr_syscall_get_result(drcontext);
  struct arrival *a = number > 0 ? own((int)number, thread, SENT_ON) : NULL;
  if (a) {
    if (to) dr_safe_write(to, sizeof a->info, &a->info, NULL);
    set_state(a, FREE);
  }
  end_of(thread);
  restore_set(drcontext);
}

static void answer(void *drcontext, const siginfo_t *info, void *to) {
  enum { FAULT = 14 };
  const bool failed = to && !dr_safe_write(to, sizeof *info, info, NULL);
  dr_syscall_set_result(drcontext, (reg_t)(failed ? -FAULT : info->si_signo));
}

/* Before rt_sigtimedwait(). Signals are blocked in Linux before we look, so none is missed. True:
 * one was kept, which answers the call. */
bool waited_answers(void *drcontext, const void *from, void *to, size_t size) {
  uint64_t set;
  struct arrival *a;
  siginfo_t info;
  see_what_comes(drcontext);
  if (!read_set(from, size, &set)) return false;
  struct wait *w = begin(set);
  do {
    a = first_kept(set, dr_get_thread_id(drcontext));
    if (a) info = a->info;
  } while (a && !change(&a->state, KEPT, a->thread ? ANSWERED : FREE));
  if (!a) {
    leave_out_dynamorios(drcontext, set);
    return false;
  }
  if (w) end(w);
  answer(drcontext, &info, to);
  return true;
}

/* DynamoRIO gives a call of ppoll() the signals that it has kept. The registers are the program's.
 */
enum { ARGUMENTS = 5 };

void waited_suspends(void *drcontext) {
  suspension *s = thread_suspension(drcontext);
  if (!s) return;
  for (int i = 0; i < ARGUMENTS; i++) s->arguments[i] = dr_syscall_get_param(drcontext, i);
  const reg_t poll[ARGUMENTS] = {0, 0, 0, s->arguments[0], s->arguments[1]};
  for (int i = 0; i < ARGUMENTS; i++) dr_syscall_set_param(drcontext, i, poll[i]);
  dr_syscall_set_sysnum(drcontext, SYS_ppoll);
  s->under_way = true;
}

void waited_after_suspension(void *drcontext) {
  dr_mcontext_t registers = {.size = sizeof registers, .flags = DR_MC_INTEGER};
  suspension *s = thread_suspension(drcontext);
  if (!s || !s->under_way) return;
  s->under_way = false;
  dr_get_mcontext(drcontext, &registers);
  registers.xdi = s->arguments[0], registers.xsi = s->arguments[1];
  registers.xdx = s->arguments[2], registers.r10 = s->arguments[3];
  registers.r8 = s->arguments[4];
  dr_set_mcontext(drcontext, &registers);
}

/* ---- what is blocked in Linux during a call ----------------------------------------------------
 */

static uint64_t at_start;

uint64_t waited_at_start(void) { return at_start; }

/* DynamoRIO has not unblocked signals yet. */
void waited_init(void) { mask(SIG_BLOCK, 0, &at_start); }

void waited_hold(void *drcontext, uint64_t set) {
  uint64_t before = 0, *held = thread_held(drcontext);
  set = may_be_blocked(set);
  if (!set || !held) return;
  mask(SIG_BLOCK, set, &before);
  *held |= set & ~before;
}

void waited_release(void *drcontext) {
  uint64_t *held = thread_held(drcontext);
  if (!held || !*held) return;
  mask(SIG_UNBLOCK, *held, NULL);
  *held = 0;
}

/* DynamoRIO forgets what a child gets before it knows that it is one. */
void waited_before_fork(void *drcontext) { waited_hold(drcontext, ~(uint64_t)0); }

/* The new program finds in Linux what is blocked; what DynamoRIO keeps is lost. */
void waited_before_exec(void *drcontext) {
  const uint64_t *blocks = thread_mask(drcontext);
  if (blocks) waited_hold(drcontext, *blocks);
}

/* ---- life --------------------------------------------------------------------------------------
 */

/* What is for the process stays. */
void waited_thread_ends(void *drcontext) {
  const thread_id_t thread = dr_get_thread_id(drcontext);
  for (struct arrival *a = arrivals; a < arrivals + MAX_ARRIVALS; a++) {
    if (state_of(a) <= BUSY || a->thread != thread) continue;
    a->thread = 0;
    if (!a->for_process) a->state = FREE;
    change(&a->state, ANSWERED, FREE);
    change(&a->state, SENT_ON, KEPT);
  }
  end_of(own_thread());
}

void waited_forked(void) {
  for (struct arrival *a = arrivals; a < arrivals + MAX_ARRIVALS; a++) a->state = FREE;
  for (struct wait *w = waits; w < waits + MAX_WAITS; w++) *w = (struct wait){0};
}
