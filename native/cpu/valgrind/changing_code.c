/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Code that changes. Valgrind has translations compare themselves with their code at each use, but
 * not if that lies in a file's mapping. Programs do change such code: they write over their own
 * functions, and runtimes that generate code (.NET) write it through another mapping of a file in
 * memory. */
#include "changing_code.h"

#include "faults.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_vki.h"
#include "tool.h"

static UInt (*valgrinds)(void *, VexRegisterUpdates *, const VexGuestExtents *);

static Bool may_change(Addr code) {
  const NSegment *segment = VG_(am_find_nsegment)(code);
  return segment && segment->kind == SkFileC && (segment->hasW || !image_is_program(code));
}

/* The set of those parts of the code that are compared. Valgrind also decides here how precise
 * registers are. */
static UInt compared(void *closure, VexRegisterUpdates *precision, const VexGuestExtents *parts) {
  UInt set = valgrinds(closure, precision, parts);
  for (UInt i = 0; i < parts->n_used; i++)
    if (may_change(parts->base[i])) set |= 1u << i;
  if (faults_are_handled() && *precision < VexRegUpdAllregsAtMemAccess)
    *precision = VexRegUpdAllregsAtMemAccess;
  return set;
}

void changing_code_compare(VexTranslateArgs *args) {
  valgrinds = args->needs_self_check;
  args->needs_self_check = compared;
}

/* Called when access to memory has changed; returns whether its translations are of no use any
 * more. What was made while nobody could write does not compare. */
extern Bool __real_vgPlain_am_notify_mprotect(Addr, SizeT, UInt);
extern Bool __wrap_vgPlain_am_notify_mprotect(Addr, SizeT, UInt);

static Bool has_file(Addr start, Addr end) {
  const NSegment *segment;
  for (; start < end && (segment = VG_(am_find_nsegment)(start)); start = segment->end + 1)
    if (segment->kind == SkFileC) return True;
  return False;
}

Bool __wrap_vgPlain_am_notify_mprotect(Addr start, SizeT size, UInt access) {
  const UInt both = VKI_PROT_WRITE | VKI_PROT_EXEC;
  Bool useless = __real_vgPlain_am_notify_mprotect(start, size, access);
  return useless || ((access & both) == both && has_file(start, start + size));
}
