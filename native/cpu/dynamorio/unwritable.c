/* SPDX-License-Identifier: Apache-2.0 */
/* Pages from which code was executed, and which the program may write to. DynamoRIO makes them
 * read-only and handles the faults, but the kernel does not fault: what it should have read to
 * there failed (Racket, which reads code to the page behind code). They are made writable before
 * the call, since a failing one takes a datagram all the same. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "client.h"
#include "system_call.h"

enum { PAGE = 4096, MOST = 0x7ffff000 /* that the kernel reads */, MOST_VECTORS = 1024 };

/* ---- pages with code that no file holds, found by their number ------------------------------- */

static uint64_t *pages; /* open addressing; 0: free */
static size_t n_pages, room;

static size_t place_of(uint64_t page) {
  size_t at = (size_t)((page * 0x9e3779b97f4a7c15ull) >> 32) & (room - 1);
  while (pages[at] && pages[at] != page) at = (at + 1) & (room - 1);
  return at;
}

static void make_room(void) {
  uint64_t *old = pages;
  const size_t old_room = room;
  if (2 * n_pages < room) return;
  room = 0;
  pages = grown(NULL, &room, 2 * old_room + 1, sizeof *pages);
  for (size_t i = 0; i < old_room; i++)
    if (old[i]) pages[place_of(old[i])] = old[i];
  if (old) engine_free(old, old_room * sizeof *old);
}

static void keep(uint64_t page) {
  make_room();
  uint64_t *at = &pages[place_of(page)];
  n_pages += !*at;
  *at = page;
}

static uint64_t page_of(const byte *at) { return (uint64_t)at / PAGE; }

void unwritable_block(app_pc start, app_pc last) {
  for (uint64_t page = page_of(start); page <= page_of(last); page++) keep(page);
}

/* The first of the range's pages in which code was executed, or `end`. */
static byte *next_with_code(byte *at, byte *end) {
  lock();
  while (at < end && !(n_pages && pages[place_of(page_of(at))]))
    at = (byte *)((page_of(at) + 1) * PAGE);
  unlock();
  return at < end ? at : end;
}

/* ---- what is read there ---------------------------------------------------------------------- */

static bool was_made_read_only(const byte *at) {
  uint protection;
  return dr_query_memory(at, NULL, NULL, &protection) && (protection & DR_MEMPROT_PRETEND_WRITE);
}

static void make_writable(byte *at, size_t size) {
  byte *const last = (byte *)((uintptr_t)1 << 47); /* of programs */
  if (at >= last) return;
  const size_t rest = (size_t)(last - at), most = size < MOST ? size : MOST;
  byte *const end = at + (most < rest ? most : rest);
  for (at = next_with_code(at, end); at < end; at = next_with_code(at, end)) {
    if (was_made_read_only(at)) __atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
    at = (byte *)((page_of(at) + 1) * PAGE);
  }
}

static void make_vectors_writable(reg_t vectors, size_t n) {
  struct iovec one;
  for (size_t i = 0; i < n && i < MOST_VECTORS; i++, vectors += sizeof one) {
    if (!dr_safe_read((void *)vectors, sizeof one, &one, NULL)) return;
    make_writable(one.iov_base, one.iov_len);
  }
}

void unwritable_before_call(void *drcontext, int number) {
  struct msghdr message;
  if (!n_pages) return;
  const reg_t second = dr_syscall_get_param(drcontext, 1),
              third = dr_syscall_get_param(drcontext, 2);
  switch (number) {
    case SYS_read:
    case SYS_pread64:
    case SYS_recvfrom:
      make_writable((byte *)second, third);
      break;
    case SYS_getrandom:
      make_writable((byte *)dr_syscall_get_param(drcontext, 0), second);
      break;
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
      make_vectors_writable(second, third);
      break;
    case SYS_recvmsg:
      if (dr_safe_read((void *)second, sizeof message, &message, NULL))
        make_vectors_writable((reg_t)message.msg_iov, message.msg_iovlen);
      break;
    default:
      break;
  }
}

static bool is_file(reg_t descriptor) {
  return xp_system_call(SYS_lseek, (long)descriptor, 0, SEEK_CUR, 0) >= 0;
}

/* Another thread may have executed code of the page meanwhile. A file can be read again. */
void unwritable_after_read(void *drcontext, int number) {
  enum { ARGUMENTS = 6 };
  reg_t a[ARGUMENTS];
  if (!n_pages || (long)dr_syscall_get_result(drcontext) != -EFAULT) return;
  for (int i = 0; i < ARGUMENTS; i++) a[i] = dr_syscall_get_param(drcontext, i);
  if (!is_file(a[0]) || !was_made_read_only((byte *)a[1])) return;
  make_writable((byte *)a[1], a[2]);
  dr_syscall_set_sysnum(drcontext, number);
  for (int i = 0; i < ARGUMENTS; i++) dr_syscall_set_param(drcontext, i, a[i]);
  dr_syscall_invoke_another(drcontext);
}
