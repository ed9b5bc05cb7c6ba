/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Programs are not told of Valgrind, for they would do something else than natively. Mono then sets
 * no stack for signals, and ended at the first null reference: its handler writes to the stack
 * below the fault, where Valgrind has what it needs for the return. */
#include "unnoticed.h"

#include "libvex_guest_amd64.h"
#include "pub_tool_machine.h"
#include "valgrind.h"

static UWord read_register(ThreadId tid, PtrdiffT offset) {
  UWord value;
  VG_(get_shadow_regs_area)(tid, (UChar *)&value, 0, offset, sizeof value);
  return value;
}

/* The core answers itself, and tells us once it has. */
void unnoticed_after_request(CorePart part, ThreadId tid, PtrdiffT offset, SizeT size) {
  const UWord no = 0;
  if (part != Vg_CoreClientReq || offset != offsetof(VexGuestAMD64State, guest_RDX)) return;
  const UWord *request = (void *)read_register(tid, offsetof(VexGuestAMD64State, guest_RAX));
  if (*request == VG_USERREQ__RUNNING_ON_VALGRIND)
    VG_(set_shadow_regs_area)(tid, 0, offset, size, (const UChar *)&no);
}
