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

/* A thread in native code: our stack, and where the thread is to begin or has stopped, with the
 * registers that a call keeps. The assembly knows the fields. */
typedef struct native_state {
  uint64_t our_stack;
  uint64_t rbx, rbp, r12, r13, r14, r15, rsp, pc;
} native_state;

/* Takes the thread to where `state` says, with arguments a and b and the result 1, until it returns
 * to native_return or stops. */
void run_on_stack(uint64_t a, uint64_t b, native_state *state);
/* Where native code returns to; `state` is on the stack then. */
extern const char native_return[] __attribute__((visibility("hidden")));
/* In native code: lets its run_on_stack() return. `state` is the state where this one would. */
void stop_on_stack(native_state *state);
__asm__(
    ".text\n"
    ".type run_on_stack, @function\n"
    "run_on_stack:\n"
    "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "  mov %rsp, 0(%rdx)\n"
    "  mov 8(%rdx), %rbx; mov 16(%rdx), %rbp\n"
    "  mov 24(%rdx), %r12; mov 32(%rdx), %r13; mov 40(%rdx), %r14; mov 48(%rdx), %r15\n"
    "  mov 56(%rdx), %rsp; mov 64(%rdx), %r11\n"
    "  movq $0, 64(%rdx)\n"
    "  mov $1, %eax\n"
    "  jmp *%r11\n"
    ".hidden native_return\n"
    "native_return:\n"
    "  pop %rdi\n"
    "1: mov 0(%rdi), %rsp\n"
    "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
    "  ret\n"
    ".size run_on_stack, .-run_on_stack\n"
    ".type stop_on_stack, @function\n"
    "stop_on_stack:\n"
    "  pop 64(%rdi)\n"
    "  mov %rbx, 8(%rdi); mov %rbp, 16(%rdi)\n"
    "  mov %r12, 24(%rdi); mov %r13, 32(%rdi); mov %r14, 40(%rdi); mov %r15, 48(%rdi)\n"
    "  mov %rsp, 56(%rdi)\n"
    "  jmp 1b\n"
    ".size stop_on_stack, .-stop_on_stack\n");
_Static_assert(__builtin_offsetof(native_state, rbx) == 8 &&
                   __builtin_offsetof(native_state, pc) == 64,
               "the assembly has these offsets");

typedef struct native_work {
  native_state entry; /* of the program, where it goes on behind the work */
  native_state now;
} native_work;

/* Words on the program's stack: where the work returns to, its state then, and what the call of
 * xpu_run_natively() has put there. */
enum { FRAME = 3 };

static uint64_t *frame_of(const native_work *work) { return (uint64_t *)work->entry.rsp - FRAME; }

static void return_to(native_work *work, const void *to) {
  uint64_t *frame = frame_of(work);
  frame[0] = (uint64_t)to;
  frame[1] = (uint64_t)&work->now;
}

/* ---- the heap ---------------------------------------------------------------------------------
 */
/* Where our launcher does not tell it otherwise, DynamoRIO emulates brk(), so native code must not
 * call it. With this end of the heap, libc's sbrk() fails before it asks the kernel, and malloc()
 * maps memory. */
static const uint64_t NO_BREAK = (uint64_t)-4096;

static uint64_t *program_break; /* libc's __curbrk */
static bool break_is_emulated = true;
static uint64_t kept_break;
static unsigned running; /* threads in native code */

void natively_break_at(void *at) { program_break = at; }

/* To keep its place free, DynamoRIO moves the kernel's break by a byte. Natively it begins at a
 * page, and the alignment of memory decides how strings are copied. */
static void align_break(void) {
  const uint64_t at = (uint64_t)xp_system_call(SYS_brk, 0, 0, 0, 0);
  xp_system_call(SYS_brk, (long)(at & -(uint64_t)dr_page_size()), 0, 0, 0);
}

void natively_init(void) {
  uint64_t emulates = 0;
  if (!dr_get_integer_option("emulate_brk", &emulates) || emulates) return;
  break_is_emulated = false;
  align_break();
}

static void hide_break(void) {
  if (!break_is_emulated) return;
  lock();
  if (!running++) {
    kept_break = *program_break;
    *program_break = NO_BREAK;
  }
  unlock();
}

static void show_break(void) {
  if (!break_is_emulated) return;
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

static void read_signals(signal_state *state) {
  for (int i = 0; i < XPU_SIGNALS; i++) signal_action(i, NULL, &state->action[i]);
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
    if (same_words(old, new, sizeof *old / sizeof(uint64_t)) || signal_is_dynamorios(new) ||
        new->handler == signal_first_handler())
      continue;
    call->action[i] = *new;
    call->changed |= 1ull << i;
    signal_action(i, old, NULL);
  }
  if (same_words(before->stack, after.stack, 3)) return;
  for (int i = 0; i < 3; i++) call->stack[i] = after.stack[i];
  call->stack_changed = 1;
  xp_system_call(SYS_sigaltstack, (long)before->stack, 0, 0, 0);
}

bool natively_calls_zero(void *drcontext, dr_siginfo_t *signal) {
  if (!signal_at_zero(signal)) return false;
  dr_mark_safe_to_suspend(drcontext, false);
  dr_switch_to_dr_state(drcontext);
  *signal->mcontext = *signal->raw_mcontext;
  signal->mcontext->pc = NULL;
  return true;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

/* A handler of the program's for faults would return into native code, where nobody counts. */
static bool handles_faults;

void natively_sets_handler(int number, const void *action) {
  uint64_t handler = 0;
  if (signal_is_of_code(number) && action && dr_safe_read(action, sizeof handler, &handler, NULL) &&
      handler > 1)
    handles_faults = true; /* neither SIG_DFL nor SIG_IGN */
}

/* Intel's runtime allocates much. With an emulated break, that puts the program's own memory into
 * pieces of a megabyte, and a program that reads far beyond an array of its own faults, as SHOC's
 * Spmv did. */
static bool needs_break;

static bool possible(void) {
  return program_break && !handles_faults && !(needs_break && break_is_emulated);
}

static void natively(void *drcontext, uint64_t a, uint64_t b, native_work *work,
                     xpu_native_call *changes) {
  signal_state signals;
  return_to(work, native_return);
  hide_break();
  signals_come_first();
  read_signals(&signals);
  dr_switch_to_app_state(drcontext);
  dr_mark_safe_to_suspend(drcontext, true);
  run_on_stack(a, b, &work->now);
  dr_mark_safe_to_suspend(drcontext, false);
  dr_switch_to_dr_state(drcontext);
  take_changes_back(&signals, changes);
  show_break();
  lock();
  images_search();
  unlock();
}

static native_work *work_of(xpu_native_call *call) {
  _Static_assert(sizeof(native_work) <= sizeof call->engine, "the engine's room holds it");
  return (native_work *)call->engine;
}

static void stop(xpu_native_call *call) { stop_on_stack(&work_of(call)->now); }

/* At a function's entry: where it returns to. */
static native_state return_of(const dr_mcontext_t *context) {
  return (native_state){.rbx = context->xbx,
                        .rbp = context->xbp,
                        .r12 = context->r12,
                        .r13 = context->r13,
                        .r14 = context->r14,
                        .r15 = context->r15,
                        .rsp = context->xsp + sizeof(app_pc),
                        .pc = *(uint64_t *)context->xsp};
}

static void go_on_from(dr_mcontext_t *context, const native_state *state) {
  context->xbx = state->rbx;
  context->xbp = state->rbp;
  context->r12 = state->r12;
  context->r13 = state->r13;
  context->r14 = state->r14;
  context->r15 = state->r15;
  context->xsp = state->rsp;
  context->pc = (app_pc)state->pc;
}

/* Up to where the work stops or ends. The thread continues by way of DynamoRIO's dispatcher, which
 * delivers the signals that have arrived. */
static void run(void *drcontext, dr_mcontext_t *context, xpu_native_call *call) {
  native_work *work = work_of(call);
  natively(drcontext, (uint64_t)call->data, 0, work, call);
  bool stopped = work->now.pc != 0;
  if (stopped) return_to(work, call->landing);
  context->xax = 1;
  go_on_from(context, stopped ? &work->now : &work->entry);
  dr_redirect_execution(context);
}

/* The work begins with this function. */
static void begin_at(native_work *work, const void *function) {
  work->now = work->entry;
  work->now.rsp = (uint64_t)frame_of(work);
  work->now.pc = (uint64_t)function;
}

/* At the entry of xpu_run_natively(). */
void natively_run(xpu_native_call *call) {
  void *drcontext = dr_get_current_drcontext();
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_ALL};
  if (!possible() || !dr_get_mcontext(drcontext, &context)) return;
  native_work *work = work_of(call);
  work->entry = return_of(&context);
  begin_at(work, (const void *)call->work);
  call->stop = stop;
  run(drcontext, &context, call);
}

/* At the entry of xpu_go_on_natively(), which returns natively. */
void natively_go_on(xpu_native_call *call) {
  void *drcontext = dr_get_current_drcontext();
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_ALL};
  if (!possible() || !dr_get_mcontext(drcontext, &context)) return;
  work_of(call)->now = return_of(&context);
  run(drcontext, &context, call);
}

static bool is_intels(const char *path) { return text_starts(file_name(path), "libintelocl.so"); }

/* Whose constructors start no thread and set no handler. */
static bool is_driver(const char *path) {
  return is_intels(path) || text_starts(file_name(path), "libpocl.so");
}

void natively_loaded(const char *path) {
  if (is_intels(path)) needs_break = true;
}

/* At the entry of dlopen(): a driver, with all that it needs, is loaded before the call, which then
 * finds it. */
void natively_load(const char *path, uint64_t flags, app_pc dlopen) {
  void *drcontext = dr_get_current_drcontext();
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_CONTROL};
  xpu_native_call changes = {0};
  native_work work = {0};
  if (!path || !is_driver(path)) return;
  natively_loaded(path);
  if (!possible() || !dr_get_mcontext(drcontext, &context)) return;
  work.entry.rsp = context.xsp & ~(uint64_t)15;
  begin_at(&work, dlopen);
  natively(drcontext, (uint64_t)path, flags, &work, &changes);
}
