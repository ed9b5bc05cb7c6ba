/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and processes that the program makes. They take turns: before each, DynamoRIO frees what
 * it knows of children that execute a program, also of one that is about to. A program whose
 * threads start programs crashed, or lost some. */
#include <linux/sched.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

typedef struct creation {
  uint64_t flags, stack;
} creation;

static creation of_call(void *drcontext, int number) {
  creation c = {number == SYS_fork ? 0 : CLONE_VM | CLONE_VFORK, 0};
  struct clone_args arguments = {0};
  if (number == SYS_clone) {
    c.flags = dr_syscall_get_param(drcontext, 0);
    c.stack = dr_syscall_get_param(drcontext, 1);
  } else if (number == SYS_clone3) {
    dr_safe_read((void *)dr_syscall_get_param(drcontext, 0), CLONE_ARGS_SIZE_VER0, &arguments,
                 NULL);
    c.flags = arguments.flags;
    c.stack = arguments.stack ? arguments.stack + arguments.stack_size : 0;
  }
  if (!c.stack) c.stack = stack_pointer(drcontext);
  return c;
}

static void set_flags(void *drcontext, int number, uint64_t flags) {
  if (number == SYS_vfork)
    dr_syscall_set_sysnum(drcontext, SYS_fork);
  else if (number == SYS_clone)
    dr_syscall_set_param(drcontext, 0, flags);
  else /* of struct clone_args, the first member */
    dr_safe_write((void *)dr_syscall_get_param(drcontext, 0), sizeof flags, &flags, NULL);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The thread whose turn it is: a child that shares memory has executed its program, or ended, when
 * the call returns. */
static void *creator;

static bool take_turn(void *drcontext) {
  void *nobody = NULL;
  return __atomic_compare_exchange_n(&creator, &nobody, drcontext, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

/* A child may live long before it executes a program; the others do not wait for ever. */
static void await_turn(void *drcontext) {
  enum { MOST = 1000 }; /* ms */
  for (int i = 0; i < MOST && !take_turn(drcontext); i++) {
    dr_mark_safe_to_suspend(drcontext, true);
    dr_sleep(1);
    dr_mark_safe_to_suspend(drcontext, false);
  }
}

static void end_turn(void *drcontext) {
  __atomic_compare_exchange_n(&creator, &drcontext, NULL, false, __ATOMIC_RELEASE,
                              __ATOMIC_RELAXED);
}

void creations_forked(void) { creator = NULL; }

/* ---- calls ----------------------------------------------------------------------------------- */

/* A child that shares memory until it execs runs little, and none of it is a thread's work. A child
 * of the device runtime gets its own memory: it execs without DynamoRIO's knowledge, which would
 * treat it as a continuing thread. */
void creation_begins(void *drcontext, int number) {
  creation c = of_call(drcontext, number);
  bool is_thread = c.flags & CLONE_THREAD, off = thread_is_off(drcontext);
  if (!thread_is_child(drcontext)) await_turn(drcontext); /* else it is its creator's turn */
  if ((c.flags & CLONE_VM) && (is_thread || !off)) {
    thread_announced(c.stack, !is_thread, off);
    return;
  }
  if (c.flags & CLONE_VM) set_flags(drcontext, number, c.flags & ~(uint64_t)CLONE_VM);
  waited_before_fork(drcontext);
}

void creation_ended(void *drcontext, int number) {
  end_turn(drcontext);
  if (number != SYS_clone && number != SYS_clone3) return;
  if ((long)dr_syscall_get_result(drcontext) < 0)
    thread_not_created(of_call(drcontext, number).stack);
}
