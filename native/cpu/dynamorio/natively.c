/* SPDX-License-Identifier: Apache-2.0 */
/* Code of a device runtime that executes once runs outside DynamoRIO: loading PoCL and building a
 * program execute some 46,000 blocks, and DynamoRIO takes several microseconds to build each.
 *
 * A clean call leaves DynamoRIO in order, so native code may run in it: on the thread's own stack,
 * with its own thread-local storage. docs/dynamorio.md, "Run natively", says what that requires. */
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

typedef uint64_t (*function)(uint64_t, uint64_t);

/* Calls f(a, b) on the stack that ends at `stack`. */
uint64_t call_on_stack(uint64_t a, uint64_t b, function f, uint64_t stack);
__asm__(
    ".text\n"
    ".type call_on_stack, @function\n"
    "call_on_stack:\n"
    "  push %rbp\n"
    "  mov %rsp, %rbp\n"
    "  mov %rcx, %rsp\n"
    "  call *%rdx\n"
    "  mov %rbp, %rsp\n"
    "  pop %rbp\n"
    "  ret\n"
    ".size call_on_stack, .-call_on_stack\n");

/* ---- the heap ---------------------------------------------------------------------------------
 */
/* DynamoRIO emulates brk(), so native code must not call it. With this end of the heap, libc's
 * sbrk() fails before it asks the kernel, and malloc() maps memory. */
static const uint64_t NO_BREAK = (uint64_t)-4096;

static uint64_t *program_break; /* libc's __curbrk */
static uint64_t kept_break;
static unsigned running; /* threads in native code */

void natively_break_at(void *at) { program_break = at; }

static void hide_break(void) {
  lock();
  if (!running++) {
    kept_break = *program_break;
    *program_break = NO_BREAK;
  }
  unlock();
}

static void show_break(void) {
  lock();
  if (!--running && *program_break == NO_BREAK) *program_break = kept_break;
  unlock();
}

/* ---- signals ----------------------------------------------------------------------------------
 */
/* DynamoRIO's handlers must stay. A native change is taken back, for the runtime to repeat. */

typedef struct signal_state {
  xpu_signal_action action[XPU_SIGNALS];
  uint64_t stack[3];
} signal_state;

static void set_or_get(int i, const xpu_signal_action *set, xpu_signal_action *get) {
  xp_system_call(SYS_rt_sigaction, i + 1, (long)set, (long)get, sizeof set->mask);
}

static void read_signals(signal_state *state) {
  for (int i = 0; i < XPU_SIGNALS; i++) set_or_get(i, NULL, &state->action[i]);
  xp_system_call(SYS_sigaltstack, 0, (long)state->stack, 0, 0);
}

static bool same_words(const void *a, const void *b, size_t n) {
  const uint64_t *x = a, *y = b;
  for (size_t i = 0; i < n; i++)
    if (x[i] != y[i]) return false;
  return true;
}

/* Meanwhile other threads may have had DynamoRIO set its own handler, which it has for SIGSEGV. */
static void take_changes_back(const signal_state *before, xpu_native_call *call) {
  signal_state after;
  read_signals(&after);
  for (int i = 0; i < XPU_SIGNALS; i++) {
    const xpu_signal_action *old = &before->action[i], *new = &after.action[i];
    if (same_words(old, new, sizeof *old / sizeof(uint64_t)) ||
        new->handler == before->action[SIGSEGV - 1].handler)
      continue;
    call->action[i] = *new;
    call->changed |= 1ull << i;
    set_or_get(i, old, NULL);
  }
  if (same_words(before->stack, after.stack, 3)) return;
  for (int i = 0; i < 3; i++) call->stack[i] = after.stack[i];
  call->stack_changed = 1;
  xp_system_call(SYS_sigaltstack, (long)before->stack, 0, 0, 0);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

/* A handler of the program's for faults would return into native code, where nobody counts. */
static bool handles_faults;

void natively_sets_handler(int number, const void *action) {
  bool fault = number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE ||
               number == SIGTRAP;
  uint64_t handler = 0;
  if (fault && action && dr_safe_read(action, sizeof handler, &handler, NULL) && handler > 1)
    handles_faults = true; /* neither SIG_DFL nor SIG_IGN */
}

static bool possible(void) { return program_break && !handles_faults; }

static uint64_t natively(void *drcontext, function f, uint64_t a, uint64_t b, uint64_t stack,
                         xpu_native_call *changes) {
  signal_state signals;
  hide_break();
  read_signals(&signals);
  dr_switch_to_app_state(drcontext);
  dr_mark_safe_to_suspend(drcontext, true);
  uint64_t result = call_on_stack(a, b, f, stack & ~(uint64_t)15);
  dr_mark_safe_to_suspend(drcontext, false);
  dr_switch_to_dr_state(drcontext);
  take_changes_back(&signals, changes);
  show_break();
  return result;
}

/* At the entry of xpu_run_natively(). The thread continues behind it by way of DynamoRIO's
 * dispatcher, which delivers the signals that have arrived. */
void natively_run(xpu_native_call *call) {
  void *drcontext = dr_get_current_drcontext();
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_ALL};
  if (!possible() || !dr_get_mcontext(drcontext, &context)) return;
  natively(drcontext, (function)(void *)call->work, (uint64_t)call->data, 0, context.xsp, call);
  context.xax = 1;
  context.pc = *(app_pc *)context.xsp;
  context.xsp += sizeof(app_pc);
  dr_redirect_execution(&context);
}

/* PoCL's and Intel's constructors start no thread and set no handler. */
static bool is_driver(const char *path) {
  return text_starts(file_name(path), "libpocl.so") ||
         text_starts(file_name(path), "libintelocl.so");
}

/* At the entry of dlopen(): a driver, with all that it needs, is loaded before the call, which then
 * finds it. */
void natively_load(const char *path, uint64_t flags, app_pc dlopen) {
  void *drcontext = dr_get_current_drcontext();
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_CONTROL};
  xpu_native_call changes = {0};
  if (!path || !is_driver(path) || !possible() || !dr_get_mcontext(drcontext, &context)) return;
  natively(drcontext, (function)(void *)dlopen, (uint64_t)path, flags, context.xsp, &changes);
  lock();
  images_search();
  unlock();
}
