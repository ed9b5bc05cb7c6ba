/* SPDX-License-Identifier: Apache-2.0 */
/* DynamoRIO handles the signals that the program ignores, and drops them. But Linux gives handled
 * signals their default action in a program that is executed, and leaves the children of a process
 * that handles SIGCHLD to be waited for. */
#include <signal.h>

#include "client.h"

enum { DEFAULT, IGNORED, CHILD = SIGCHLD - 1 };

/* The actions that SIG_IGN has replaced in Linux: DynamoRIO's, the same for all threads. */
static xpu_signal_action handled[XPU_SIGNALS];

static uint64_t bit(int i) { return (uint64_t)1 << i; }

/* DynamoRIO and we need these ourselves. */
static bool is_ours(int i) {
  const int number = i + 1;
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGSYS;
}

static void have_ignored(int i) {
  const xpu_signal_action ignore = {.handler = IGNORED};
  xpu_signal_action action = {0};
  signal_action(i, NULL, &action);
  if (action.handler == IGNORED) return;
  if (action.handler != DEFAULT) handled[i] = action; /* clone3 may clear all handlers */
  signal_action(i, &ignore, NULL);
}

static void have_handled(int i) {
  xpu_signal_action action = {0};
  signal_action(i, NULL, &action);
  if (action.handler != IGNORED || !handled[i].handler) return;
  signal_action(i, &handled[i], NULL);
  signals_changed(i);
}

/* DynamoRIO has set its handlers for faults only. */
void ignored_init(void) {
  uint64_t *ignores = thread_ignores(dr_get_current_drcontext());
  xpu_signal_action action;
  for (int i = 0; i < XPU_SIGNALS; i++) {
    action.handler = DEFAULT;
    signal_action(i, NULL, &action);
    if (action.handler == IGNORED && !is_ours(i)) *ignores |= bit(i);
  }
}

/* DynamoRIO does not tell Linux of the program's actions. */
void ignored_set(void *drcontext, int number, const void *set, size_t size) {
  uint64_t *ignores = thread_ignores(drcontext), *handles = thread_handles(drcontext);
  const int i = number - 1;
  xpu_signal_action action;
  if (!set || size != sizeof action.mask || i < 0 || i >= XPU_SIGNALS || is_ours(i) ||
      !dr_safe_read(set, sizeof action, &action, NULL))
    return;
  lock();
  if (action.handler == IGNORED || action.handler == DEFAULT)
    *handles &= ~bit(i);
  else
    *handles |= bit(i);
  if (action.handler == IGNORED) {
    *ignores |= bit(i);
    if (i == CHILD) have_ignored(i);
  } else {
    *ignores &= ~bit(i);
    have_handled(i);
  }
  unlock();
}

void ignored_before_child(void *drcontext) {
  lock();
  if (*thread_ignores(drcontext) & bit(CHILD)) have_ignored(CHILD);
  unlock();
}

void ignored_before_exec(void *drcontext) {
  lock();
  for (int i = 0; i < XPU_SIGNALS; i++)
    if (*thread_ignores(drcontext) & bit(i)) have_ignored(i);
  unlock();
}

void ignored_after_failed_exec(void *drcontext) {
  lock();
  for (int i = 0; i < XPU_SIGNALS; i++)
    if (i != CHILD && (*thread_ignores(drcontext) & bit(i))) have_handled(i);
  unlock();
}
