/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's stack for handlers, as the kernel tells of it. DynamoRIO gives back the flags that the
 * program set, so a handler did not learn that it runs there. */
#include <signal.h>
#include <sys/syscall.h>

#include "client.h"

#define XPU_AUTODISARM (1u << 31)

static bool is_on(const stack_t *stack, uint64_t pointer) {
  return pointer - 1 - (uint64_t)stack->ss_sp < stack->ss_size;
}

void signal_stack_after_call(void *drcontext, void *told) {
  stack_t stack;
  if ((long)dr_syscall_get_result(drcontext) < 0) return;
  if (!told || !dr_safe_read(told, sizeof stack, &stack, NULL)) return;
  const unsigned kept = (unsigned)stack.ss_flags & XPU_AUTODISARM;
  stack.ss_flags = (int)kept;
  if (!stack.ss_size)
    stack.ss_flags |= SS_DISABLE;
  else if (!kept && is_on(&stack, stack_pointer(drcontext)))
    stack.ss_flags |= SS_ONSTACK;
  dr_safe_write(told, sizeof stack, &stack, NULL);
}
