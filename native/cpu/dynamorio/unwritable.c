/* SPDX-License-Identifier: Apache-2.0 */
/* Memory from which code was executed, and which the program may write to. DynamoRIO makes it
 * read-only and handles the faults, but the kernel does not fault: what it should have read to
 * there failed (Racket, which reads code to the page behind code). It is made writable, and the
 * call made again; before the call where that would take another datagram. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "client.h"
#include "system_call.h"

enum { PAGE = 4096, MOST = 0x7ffff000 /* that the kernel reads */, MOST_VECTORS = 1024 };

static bool any; /* code that no file holds */

void unwritable_block(void) { any = true; }

static bool was_made_read_only(uint protection) { return protection & DR_MEMPROT_PRETEND_WRITE; }

static void write_pages(byte *from, const byte *end) {
  for (byte *at = from; at < end; at = (byte *)((uintptr_t)(at + PAGE) & -(uintptr_t)PAGE))
    __atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
}

/* Up to where nobody may write, which ends the kernel's reading, too. Whether any of it was not. */
static bool make_writable(byte *at, size_t size) {
  bool changed = false;
  byte *base, *end = at + (size < MOST ? size : MOST);
  size_t length;
  uint protection;
  for (; at < end && dr_query_memory(at, &base, &length, &protection); at = base + length) {
    byte *const behind = base + length < end ? base + length : end;
    if (was_made_read_only(protection))
      write_pages(at, behind);
    else if (!(protection & DR_MEMPROT_WRITE))
      break;
    changed |= was_made_read_only(protection);
    if (behind <= at) break; /* the last page there is */
  }
  return changed;
}

static bool make_vectors_writable(reg_t vectors, size_t n) {
  struct iovec one;
  bool changed = false;
  for (size_t i = 0; i < n && i < MOST_VECTORS; i++, vectors += sizeof one) {
    if (!dr_safe_read((void *)vectors, sizeof one, &one, NULL)) break;
    changed |= make_writable(one.iov_base, one.iov_len);
  }
  return changed;
}

static bool make_message_writable(reg_t given) {
  struct msghdr message;
  return dr_safe_read((void *)given, sizeof message, &message, NULL) &&
         make_vectors_writable((reg_t)message.msg_iov, message.msg_iovlen);
}

static bool make_target_writable(int number, const reg_t *a) {
  switch (number) {
    case SYS_read:
    case SYS_pread64:
    case SYS_recvfrom:
      return make_writable((byte *)a[1], a[2]);
    case SYS_getrandom:
      return make_writable((byte *)a[0], a[1]);
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
      return make_vectors_writable(a[1], a[2]);
    case SYS_recvmsg:
      return make_message_writable(a[1]);
    default:
      return false;
  }
}

/* A call that fails has taken the datagram all the same. */
static bool takes_datagram(int number, reg_t descriptor) {
  int type = 0;
  socklen_t size = sizeof type;
  if (number != SYS_recvfrom && number != SYS_recvmsg && number != SYS_read) return false;
  xp_system_call6(SYS_getsockopt, (long)descriptor, SOL_SOCKET, SO_TYPE, (long)&type, (long)&size,
                  0);
  return type && type != SOCK_STREAM;
}

enum { ARGUMENTS = 6 };

static void read_arguments(void *drcontext, reg_t a[ARGUMENTS]) {
  for (int i = 0; i < ARGUMENTS; i++) a[i] = dr_syscall_get_param(drcontext, i);
}

void unwritable_before_call(void *drcontext, int number) {
  reg_t a[ARGUMENTS];
  if (!any || (number != SYS_recvfrom && number != SYS_recvmsg)) return;
  read_arguments(drcontext, a);
  if (takes_datagram(number, a[0])) make_target_writable(number, a);
}

void unwritable_after_call(void *drcontext, int number) {
  reg_t a[ARGUMENTS];
  if ((long)dr_syscall_get_result(drcontext) != -EFAULT) return;
  read_arguments(drcontext, a);
  if (takes_datagram(number, a[0]) || !make_target_writable(number, a)) return;
  dr_syscall_set_sysnum(drcontext, number);
  for (int i = 0; i < ARGUMENTS; i++) dr_syscall_set_param(drcontext, i, a[i]);
  dr_syscall_invoke_another(drcontext);
}
