/* SPDX-License-Identifier: Apache-2.0 */
/* A handler in front of DynamoRIO's, for code that runs outside its code cache: DynamoRIO takes
 * a signal there for one in itself. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "client.h"
#include "system_call.h"

static uint64_t dynamorios __attribute__((used)); /* one handler for all */

static int comes_first(int number, siginfo_t *info, ucontext_t *context) __attribute__((used));

/* DynamoRIO's finds all that it needs where the stack pointer is. */
void handle_first(void) __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".type handle_first, @function\n"
    "handle_first:\n"
    "  push %rdi; push %rsi; push %rdx\n"
    "  call comes_first\n"
    "  pop %rdx; pop %rsi; pop %rdi\n"
    "  test %eax, %eax\n"
    "  jne 1f\n"
    "  jmp *dynamorios(%rip)\n"
    "1: ret\n"
    ".size handle_first, .-handle_first\n");

/* DynamoRIO takes address 0 for the return of a system call by sysenter, which does not exist here,
 * and repeats a fault there for ever. So it is told of another address, and the thread goes on at 0
 * under DynamoRIO, which then ends the program in order. */
enum { NOWHERE = 1 };

bool signal_at_zero(const dr_siginfo_t *signal) {
  return signal->sig == SIGSEGV && signal->raw_mcontext->pc == (byte *)NOWHERE;
}

static int comes_first(int number, siginfo_t *info, ucontext_t *context) {
  greg_t *pc = &context->uc_mcontext.gregs[REG_RIP];
  sent_returns(info);
  if (start_up_interrupted(number, info, context)) return 1;
  if (kernel_interrupted(number, info, context)) return 1;
  if (waited_arrives(number, info)) return 1;
  if (sent_too_early(info, (const byte *)*pc)) return 1;
  if (number == SIGSEGV && !*pc) *pc = NOWHERE;
  return 0;
}

void signal_action(int i, const xpu_signal_action *set, xpu_signal_action *get) {
  xp_system_call(SYS_rt_sigaction, i + 1, (long)set, (long)get, sizeof set->mask);
}

uint64_t signal_first_handler(void) { return (uint64_t)handle_first; }

bool signal_came_between(uint64_t pc, const char *start, const char *end) {
  return pc - (uint64_t)start < (uint64_t)(end - start);
}

/* DynamoRIO repeats the instruction behind which a breakpoint stops: `int3`, or `int $3`. */
void signal_keep_registers(greg_t *to, const greg_t *from, const siginfo_t *info) {
  enum { INT3 = 0xcc };
  for (int i = 0; i < SIGNAL_REGISTERS; i++) to[i] = from[i];
  if (info->si_signo == SIGTRAP && info->si_code == SI_KERNEL)
    to[REG_RIP] -= ((const uint8_t *)from[REG_RIP])[-1] == INT3 ? 1 : 2;
}

void signal_read_registers(dr_mcontext_t *context, const greg_t *from) {
  context->xax = (reg_t)from[REG_RAX], context->xbx = (reg_t)from[REG_RBX];
  context->xcx = (reg_t)from[REG_RCX], context->xdx = (reg_t)from[REG_RDX];
  context->xsi = (reg_t)from[REG_RSI], context->xdi = (reg_t)from[REG_RDI];
  context->xbp = (reg_t)from[REG_RBP], context->xsp = (reg_t)from[REG_RSP];
  context->r8 = (reg_t)from[REG_R8], context->r9 = (reg_t)from[REG_R9];
  context->r10 = (reg_t)from[REG_R10], context->r11 = (reg_t)from[REG_R11];
  context->r12 = (reg_t)from[REG_R12], context->r13 = (reg_t)from[REG_R13];
  context->r14 = (reg_t)from[REG_R14], context->r15 = (reg_t)from[REG_R15];
  context->xflags = (reg_t)from[REG_EFL];
  context->pc = (app_pc)from[REG_RIP];
}

bool signal_is_of_code(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE ||
         number == SIGTRAP;
}

bool signal_is_dynamorios(const xpu_signal_action *action) { return action->handler == dynamorios; }

/* DynamoRIO has its handler for faults from the start, and for what the program handles. */
static void find_dynamorios(void) {
  enum { IGNORED = 1 };
  xpu_signal_action action;
  signal_action(SIGSEGV - 1, NULL, &action);
  if (action.handler <= IGNORED) return;
  sent_begin((const byte *)action.handler);
  dynamorios = action.handler;
}

static void come_first(int i) {
  xpu_signal_action action;
  signal_action(i, NULL, &action);
  if (!signal_is_dynamorios(&action)) return;
  action.handler = (uint64_t)handle_first;
  signal_action(i, &action, NULL);
}

void signals_come_first(void) {
  if (!dynamorios) find_dynamorios();
  for (int i = 0; dynamorios && i < XPU_SIGNALS; i++) come_first(i);
}

void signals_changed(int i) {
  if (!dynamorios) signals_come_first();
  if (dynamorios && i >= 0 && i < XPU_SIGNALS) come_first(i);
}
