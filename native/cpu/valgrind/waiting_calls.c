/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* System calls that the core does not expect to wait, or to leave a signal. */
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_vki.h"
#include "wrapped_call.h"

extern Int VG_(max_signal); /* by which a thread that leaves takes the others out of their calls */

extern before_call __real_vgSysWrap_linux_sys_io_uring_enter_before,
    __wrap_vgSysWrap_linux_sys_io_uring_enter_before,
    __real_vgSysWrap_linux_sys_rt_sigqueueinfo_before,
    __wrap_vgSysWrap_linux_sys_rt_sigqueueinfo_before,
    __real_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before,
    __wrap_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before;

/* The signals that the program blocks meanwhile; NULL: none. */
static vki_sigset_t *mask_of(const call_arguments *call) {
  enum { EXTENDED = 1 << 3 };
  const UWord *given = (const UWord *)call->arguments[4];
  if (!given || !(call->arguments[3] & EXTENDED)) return (vki_sigset_t *)given;
  const Bool readable = VG_(am_is_valid_for_client)((Addr)given, sizeof *given, VKI_PROT_READ);
  return readable ? (vki_sigset_t *)*given : NULL;
}

/* In place, as the core does with the mask of rt_sigsuspend(). */
static void unblock_max_signal(vki_sigset_t *mask) {
  const UInt access = VKI_PROT_READ | VKI_PROT_WRITE;
  if (mask && VG_(am_is_valid_for_client)((Addr)mask, sizeof *mask, access))
    VG_(sigdelset)(mask, VG_(max_signal));
}

/* The thread waited with the big lock, so no other went on: MariaDB hung at its start. */
void __wrap_vgSysWrap_linux_sys_io_uring_enter_before(ThreadId tid, const void *layout,
                                                      call_arguments *call, void *status,
                                                      UWord *flags) {
  __real_vgSysWrap_linux_sys_io_uring_enter_before(tid, layout, call, status, flags);
  unblock_max_signal(mask_of(call));
  *flags |= MAY_BLOCK;
}

/* A signal that a thread sends to itself is delivered before the call returns, as with kill(). */
void __wrap_vgSysWrap_linux_sys_rt_sigqueueinfo_before(ThreadId tid, const void *layout,
                                                       call_arguments *call, void *status,
                                                       UWord *flags) {
  __real_vgSysWrap_linux_sys_rt_sigqueueinfo_before(tid, layout, call, status, flags);
  *flags |= POLL_AFTER;
}

void __wrap_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before(ThreadId tid, const void *layout,
                                                         call_arguments *call, void *status,
                                                         UWord *flags) {
  __real_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before(tid, layout, call, status, flags);
  *flags |= POLL_AFTER;
}
