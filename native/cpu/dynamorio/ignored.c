/* SPDX-License-Identifier: Apache-2.0 */
/* DynamoRIO handles the signals that the program ignores, and drops them. But Linux gives handled
 * signals their default action in a program that is executed, and leaves the children of a process
 * that handles SIGCHLD to be waited for. */
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

enum { DEFAULT, IGNORED, CHILD = SIGCHLD - 1 };

/* DynamoRIO's, where Linux has another one. They do not differ between threads. */
static xpu_signal_action handled[XPU_SIGNALS];

static uint64_t bit(int i) { return (uint64_t)1 << i; }

static void have_ignored(int i) {
  const xpu_signal_action ignore = {.handler = IGNORED};
  xpu_signal_action action = {0};
  signal_action(i, NULL, &action);
  if (action.handler == IGNORED) return;
  handled[i] = action;
  signal_action(i, &ignore, NULL);
}

static void have_handled(int i) {
  xpu_signal_action action = {0};
  signal_action(i, NULL, &action);
  if (action.handler != IGNORED || !handled[i].handler) return;
  signal_action(i, &handled[i], NULL);
  signals_changed();
}

/* DynamoRIO has not set its handlers yet. */
void ignored_init(void) {
  uint64_t *ignores = thread_ignores(dr_get_current_drcontext());
  xpu_signal_action action;
  for (int i = 0; i < XPU_SIGNALS; i++) {
    action.handler = DEFAULT;
    signal_action(i, NULL, &action);
    if (action.handler == IGNORED) *ignores |= bit(i);
  }
}

void ignored_set(void *drcontext, int number, const void *set) {
  uint64_t *ignores = thread_ignores(drcontext);
  xpu_signal_action action;
  if (number < 1 || number > XPU_SIGNALS || !dr_safe_read(set, sizeof action, &action, NULL))
    return;
  *ignores &= ~bit(number - 1);
  if (action.handler == IGNORED) *ignores |= bit(number - 1);
  if (number - 1 != CHILD) return;
  if (action.handler == IGNORED)
    have_ignored(CHILD);
  else
    have_handled(CHILD);
}

void ignored_before_child(void *drcontext) {
  if (*thread_ignores(drcontext) & bit(CHILD)) have_ignored(CHILD);
}

void ignored_before_exec(void *drcontext) {
  for (int i = 0; i < XPU_SIGNALS; i++)
    if (*thread_ignores(drcontext) & bit(i)) have_ignored(i);
}

void ignored_after_failed_exec(void *drcontext) {
  for (int i = 0; i < XPU_SIGNALS; i++)
    if (i != CHILD && (*thread_ignores(drcontext) & bit(i))) have_handled(i);
}
