/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#include "vfork.h"

#include <asm/fcntl.h>

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "translations.h"

/* Words of the stack, from the caller's frame on. One message has to fit into a socket, which the
 * parent may read only when the child has gone. */
enum { WORDS = 1 << 14, CHANGES = 1 << 11 };
enum { EXECVEAT = 322, SEQUENCED = 5, NO_WAIT = 0x40, NO_SIGNAL = 0x4000 };

typedef struct change {
  UWord at, word; /* an index into the frames, and what it holds now */
} change;

static struct {
  Bool now; /* the call that makes the child is under way */
  UWord *frames;
  UWord words; /* 0: none */
  Int from_child, to_parent;
} lent = {.from_child = -1, .to_parent = -1};

static change changes[CHANGES];
/* In the child: the frames as its parent knows them. */
static UWord known[WORDS];

extern Int VG_(fd_hard_limit); /* of Valgrind's core: its own descriptors begin there */

static Bool lends(UInt call, const UWord *arguments) {
  const UWord both = VKI_CLONE_VM | VKI_CLONE_VFORK;
  return call == __NR_vfork || (call == __NR_clone && (arguments[0] & both) == both);
}

static void shut(Int *descriptor) {
  if (*descriptor >= 0) xp_system_call(__NR_close, *descriptor, 0, 0, 0);
  *descriptor = -1;
}

static void give_up(void) {
  shut(&lent.from_child);
  shut(&lent.to_parent);
  lent.words = 0;
}

/* Out of the program's sight and reach. */
static Int hidden(Int descriptor) {
  Int high =
      (Int)xp_system_call(__NR_fcntl, descriptor, VKI_F_DUPFD_CLOEXEC, VG_(fd_hard_limit), 0);
  shut(&descriptor);
  return high;
}

static Bool connect(void) {
  Int ends[2];
  if (xp_system_call(__NR_socketpair, VKI_AF_UNIX, SEQUENCED | O_CLOEXEC, 0, (Word)ends))
    return False;
  lent.from_child = hidden(ends[0]);
  lent.to_parent = hidden(ends[1]);
  return lent.from_child >= 0 && lent.to_parent >= 0;
}

static void lend(Addr stack) {
  const NSegment *segment = VG_(am_find_nsegment)(stack);
  if (lent.words || !segment || !segment->hasW || sandbox_is_on()) return;
  lent.frames = (UWord *)VG_ROUNDUP(stack, sizeof(UWord));
  lent.words = (segment->end + 1 - (Addr)lent.frames) / sizeof(UWord);
  if (lent.words > WORDS) lent.words = WORDS;
  lent.now = connect();
  if (!lent.now) give_up();
}

/* In the child, before it may be gone. */
static void tell_parent(void) {
  UWord n = 0;
  for (UWord at = 0; at < lent.words && n < CHANGES; at++)
    if (known[at] != lent.frames[at]) changes[n++] = (change){at, known[at] = lent.frames[at]};
  if (n)
    xp_system_call6(__NR_sendto, lent.to_parent, (Word)changes, (Word)(n * sizeof *changes),
                    NO_WAIT | NO_SIGNAL, 0, 0);
}

/* In the parent, until the child has executed a program or ended. */
static void take_back(void) {
  Word got;
  shut(&lent.to_parent);
  do {
    got = xp_system_call(__NR_read, lent.from_child, (Word)changes, sizeof changes, 0);
    for (Word i = 0; i < got / (Word)sizeof *changes; i++)
      lent.frames[changes[i].at] = changes[i].word;
  } while (got > 0 || got == -VKI_EINTR);
  give_up();
}

static Bool may_end(UInt call) {
  return call == __NR_execve || call == EXECVEAT || call == __NR_exit_group || call == __NR_exit;
}

void vfork_before_call(ThreadId tid, UInt call, const UWord *arguments) {
  if (lent.words && may_end(call)) tell_parent();
  if (lends(call, arguments)) lend(VG_(get_SP)(tid));
}

void vfork_forked(void) {
  if (!lent.now) give_up();
}

void vfork_after_call(SysRes result) {
  if (!lent.now) return;
  lent.now = False;
  if (sr_isError(result)) {
    give_up();
  } else if (sr_Res(result)) {
    take_back();
  } else {
    shut(&lent.from_child);
    VG_(memcpy)(known, lent.frames, lent.words * sizeof *known);
  }
}
