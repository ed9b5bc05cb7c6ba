/* SPDX-License-Identifier: Apache-2.0 */
/* Pages from which code was executed, and which the program may write to. DynamoRIO makes them
 * read-only and handles the faults, but the kernel does not fault: what it should have read to
 * there failed (Racket, which reads code to the page behind code). */
#include <errno.h>

#include "client.h"

enum { PAGE = 4096 };

static bool was_made_read_only(byte *at) {
  byte *base;
  size_t size;
  uint protection;
  return dr_query_memory(at, &base, &size, &protection) && (protection & DR_MEMPROT_PRETEND_WRITE);
}

static bool make_writable(byte *from, size_t size) {
  bool any = false;
  for (byte *at = from; at < from + size;
       at = (byte *)((uintptr_t)(at + PAGE) & -(uintptr_t)PAGE)) {
    if (!was_made_read_only(at)) continue;
    __atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
    any = true;
  }
  return any;
}

void unwritable_after_read(void *drcontext, int number) {
  enum { ARGUMENTS = 6 };
  reg_t a[ARGUMENTS];
  if ((long)dr_syscall_get_result(drcontext) != -EFAULT) return;
  for (int i = 0; i < ARGUMENTS; i++) a[i] = dr_syscall_get_param(drcontext, i);
  if (!make_writable((byte *)a[1], a[2])) return;
  dr_syscall_set_sysnum(drcontext, number);
  for (int i = 0; i < ARGUMENTS; i++) dr_syscall_set_param(drcontext, i, a[i]);
  dr_syscall_invoke_another(drcontext);
}
