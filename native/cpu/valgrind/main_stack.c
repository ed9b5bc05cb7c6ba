/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The main thread's stack grows to the limit that the program has at that moment, as in Linux.
 * Valgrind leaves it room for one page less than the limit at the start, and 16 MiB at most. And it
 * keeps a limit that the program sets to itself, so programs that are executed did not have it. */
#include "main_stack.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"

enum { PAGE = 4096 };

/* For those without a limit; of Valgrind's 128 GiB. Room takes no memory. */
static const UWord MOST = (UWord)8 << 30;

extern Word VG_(clo_main_stacksize); /* of the option, which we do not use */
extern struct vki_rlimit VG_(client_rlimit_stack);
extern Addr VG_(clstk_end); /* the stack's last byte */
extern Int VG_(setrlimit)(Int, const struct vki_rlimit *);
extern Int __real_vgPlain_getrlimit(Int, struct vki_rlimit *);
extern Int __wrap_vgPlain_getrlimit(Int, struct vki_rlimit *);
typedef const NSegment *extend(Addr, SSizeT, Bool *);
extern extend __real_vgPlain_am_extend_into_adjacent_reservation_client,
    __wrap_vgPlain_am_extend_into_adjacent_reservation_client;

static struct vki_rlimit at_start;

static UWord round_up(UWord limit) { return limit < MOST ? VG_PGROUNDUP(limit) : MOST; }

/* The core asks once, before it makes the stack. It never uses the last page of the room. */
Int __wrap_vgPlain_getrlimit(Int resource, struct vki_rlimit *limit) {
  const Int error = __real_vgPlain_getrlimit(resource, limit);
  if (!error && limit == &VG_(client_rlimit_stack)) {
    at_start = *limit;
    VG_(clo_main_stacksize) = (Word)(round_up(limit->rlim_max) + PAGE);
  }
  return error;
}

/* The lowest page is added even for an address below it: the core asks for the stack pointer's
 * page, and the access that made it ask may be above. If it was not, it faults again. */
const NSegment *__wrap_vgPlain_am_extend_into_adjacent_reservation_client(Addr start, SSizeT change,
                                                                          Bool *overflow) {
  const UWord limit = VG_(client_rlimit_stack).rlim_cur;
  const Addr lowest = VG_(clstk_end) + 1 - VG_PGROUNDDN(limit);
  if (change < 0 && limit < MOST && start + (Addr)change < lowest) {
    *overflow = True;
    if (start <= lowest) return NULL;
    change = (SSizeT)(lowest - start);
  }
  return __real_vgPlain_am_extend_into_adjacent_reservation_client(start, change, overflow);
}

/* Another process may have set a limit, too, which stays unless the program sets its own. */
void main_stack_before_exec(void) {
  if (VG_(memcmp)(&at_start, &VG_(client_rlimit_stack), sizeof at_start) != 0)
    VG_(setrlimit)(VKI_RLIMIT_STACK, &VG_(client_rlimit_stack));
}
