/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The data segment (brk) grows as in Linux, and gives back what it no longer holds. Valgrind leaves
 * it room for 8 MiB. What is larger is refused, so libc makes its heap of single mappings, which it
 * never gives back. And Valgrind keeps the memory behind the segment's end. */
#include "data_segment.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

enum { PAGE = 4096 };

/* Behind the libraries (placement.c), since next to the program there is seldom room. Of Valgrind's
 * 64 GiB for mappings; room takes no memory. */
static const Addr PLACE = 0x80000000;
static const UWord MOST = (UWord)4 << 30;

extern struct vki_rlimit VG_(client_rlimit_data);
extern Addr VG_(brk_base), VG_(brk_limit);
extern Bool __real_vgPlain_am_create_reservation(Addr, SizeT, ShrinkMode, SSizeT);
extern Bool __wrap_vgPlain_am_create_reservation(Addr, SizeT, ShrinkMode, SSizeT);
extern Addr __real_vgPlain_am_get_advisory_client_simple(Addr, SizeT, Bool *);
extern Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr, SizeT, Bool *);

static enum { NEXT_TO_PROGRAM, ELSEWHERE, MADE } step;

static UWord room(void) {
  const UWord limit = VG_(client_rlimit_data).rlim_cur;
  return limit < PAGE ? (UWord)PAGE : limit < MOST ? VG_PGROUNDDN(limit) : MOST;
}

/* The core asks for room next to the program; if it is refused, for a place, and there again. No
 * other reservation of the core's grows upwards. */
Bool __wrap_vgPlain_am_create_reservation(Addr start, SizeT size, ShrinkMode mode, SSizeT extra) {
  if (mode != SmLower || step == MADE)
    return __real_vgPlain_am_create_reservation(start, size, mode, extra);
  if (step == NEXT_TO_PROGRAM) {
    step = ELSEWHERE;
    return False;
  }
  step = MADE;
  return __real_vgPlain_am_create_reservation(start, room(), mode, extra);
}

Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT size, Bool *ok) {
  if (step != ELSEWHERE) return __real_vgPlain_am_get_advisory_client_simple(start, size, ok);
  return __real_vgPlain_am_get_advisory_client_simple(PLACE, PAGE + room(), ok);
}

/* The core would write zeros to all that the segment loses, even where nothing ever was. */
static void discard(Addr start, SizeT size) {
  enum { DONT_NEED = 4 };
  const NSegment *segment = VG_(am_find_nsegment)(start);
  if (segment && segment->hasT) VG_(discard_translations_safely)(start, size, "brk");
  if (xp_system_call(__NR_madvise, (Word)start, (Word)size, DONT_NEED, 0) == -VKI_EINVAL)
    VG_(memset)((void *)start, 0, size); /* it is locked in memory */
}

void data_segment_before_call(UInt call, const UWord *arguments) {
  const Addr end = arguments[0];
  if (call != __NR_brk || end < VG_(brk_base) || end >= VG_(brk_limit)) return;
  const Addr start = VG_PGROUNDUP(end), behind = VG_PGROUNDUP(VG_(brk_limit));
  if (start < behind) discard(start, behind - start);
  VG_(brk_limit) = end;
}
