/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The data segment (brk) grows as in Linux, and gives back what it no longer holds. Valgrind leaves
 * it room for 8 MiB. What is larger is refused, so libc makes its heap of single mappings, which it
 * never gives back. And Valgrind keeps the memory behind the segment's end. */
#include "data_segment.h"

#include <elf.h>

#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "tool.h"

enum { PAGE = VKI_PAGE_SIZE };

typedef struct place {
  Addr start;
  UWord most;
} place;

/* Room takes no memory. Behind the libraries (placement.c), of Valgrind's 64 GiB for mappings, ...
 */
static const place HIGH = {0x80000000, (UWord)4 << 30};
/* ... and below them, and the tool, where only libraries of more than 300 MB would lie. */
static const place LOW = {0x08000000, 0x4fff0000};

extern struct vki_rlimit VG_(client_rlimit_data);
extern Addr VG_(brk_base), VG_(brk_limit);
extern void VG_(discard_translations)(Addr, ULong, const HChar *);
extern Bool __real_vgPlain_am_create_reservation(Addr, SizeT, ShrinkMode, SSizeT);
extern Bool __wrap_vgPlain_am_create_reservation(Addr, SizeT, ShrinkMode, SSizeT);
extern Addr __real_vgPlain_am_get_advisory_client_simple(Addr, SizeT, Bool *);
extern Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr, SizeT, Bool *);

/* ---- its place ------------------------------------------------------------------------------- */

static enum { BEHIND_PROGRAM, ELSEWHERE, MADE } step;
static Bool is_low; /* the program */
static UWord reserved;

static UWord room(UWord most) {
  const UWord limit = VG_(client_rlimit_data).rlim_cur;
  return limit < PAGE ? (UWord)PAGE : limit < most ? VG_PGROUNDDN(limit) : most;
}

static Bool may_be_header(const NSegment *segment) { return segment->hasR && segment->offset == 0; }

/* Whether the program whose data ends here was linked to lie below 2 GiB. Its heap then does, too,
 * and old C keeps the addresses in an int. */
static Bool is_linked_low(Addr end) {
  enum { MOST = 64 };
  Addr starts[MOST], header = 0;
  const Int n = VG_(am_get_segment_starts)(SkFileC, starts, MOST);
  for (Int i = 0; i < n && i < MOST; i++)
    if (starts[i] < end && starts[i] > header && may_be_header(VG_(am_find_nsegment)(starts[i])))
      header = starts[i];
  return header && end <= HIGH.start && ((const Elf64_Ehdr *)header)->e_type == ET_EXEC;
}

static Bool fits(const place *p) {
  reserved = room(p->most);
  return is_free(p->start, PAGE + reserved);
}

/* The core asks for room behind the program; if it is refused, for a place, and there again. No
 * other reservation of the core's grows upwards. */
Bool __wrap_vgPlain_am_create_reservation(Addr start, SizeT size, ShrinkMode mode, SSizeT extra) {
  if (mode != SmLower || step == MADE)
    return __real_vgPlain_am_create_reservation(start, size, mode, extra);
  if (step == BEHIND_PROGRAM) {
    is_low = is_linked_low(start);
    step = ELSEWHERE;
    return False;
  }
  step = MADE;
  return __real_vgPlain_am_create_reservation(start, reserved, mode, extra);
}

Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT size, Bool *ok) {
  if (step != ELSEWHERE) return __real_vgPlain_am_get_advisory_client_simple(start, size, ok);
  *ok = True;
  if (is_low && fits(&LOW)) return LOW.start;
  if (fits(&HIGH)) return HIGH.start;
  reserved = size - PAGE;
  return __real_vgPlain_am_get_advisory_client_simple(start, size, ok);
}

/* ---- its end --------------------------------------------------------------------------------- */

static Bool has_code(Addr start, Addr end) {
  const NSegment *segment;
  for (; start < end && (segment = VG_(am_find_nsegment)(start)); start = segment->end + 1)
    if (segment->hasT) return True;
  return False;
}

/* Memory that is locked cannot be given back; what may not be written keeps what it holds. */
static void write_zeros(Addr start, Addr end) {
  const NSegment *segment;
  for (; start < end && (segment = VG_(am_find_nsegment)(start)); start = segment->end + 1) {
    const Addr behind = segment->end + 1 < end ? segment->end + 1 : end;
    if (segment->hasW) VG_(memset)((void *)start, 0, behind - start);
  }
}

/* The core would write zeros to all that the segment loses, even where nothing ever was. */
static void discard(Addr start, Addr end) {
  enum { DONT_NEED = 4 };
  if (has_code(start, end)) VG_(discard_translations)(start, end - start, "brk");
  if (xp_system_call(__NR_madvise, (Word)start, (Word)(end - start), DONT_NEED, 0) == -VKI_EINVAL)
    write_zeros(start, end);
}

void data_segment_before_call(UInt call, const UWord *arguments) {
  const Addr end = arguments[0];
  if (call != __NR_brk || end < VG_(brk_base) || end >= VG_(brk_limit)) return;
  const Addr start = VG_PGROUNDUP(end), behind = VG_PGROUNDUP(VG_(brk_limit));
  if (start < behind) discard(start, behind);
  VG_(brk_limit) = end;
}
