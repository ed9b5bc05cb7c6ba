/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* System calls that the core does not expect to wait, or to leave a signal. */
#include "wrapped_call.h"

extern before_call __real_vgSysWrap_linux_sys_io_uring_enter_before,
    __wrap_vgSysWrap_linux_sys_io_uring_enter_before,
    __real_vgSysWrap_linux_sys_rt_sigqueueinfo_before,
    __wrap_vgSysWrap_linux_sys_rt_sigqueueinfo_before,
    __real_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before,
    __wrap_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before;

/* The thread waited with the big lock, so no other went on: MariaDB hung at its start. */
void __wrap_vgSysWrap_linux_sys_io_uring_enter_before(ThreadId tid, const void *layout,
                                                      call_arguments *call, void *status,
                                                      UWord *flags) {
  __real_vgSysWrap_linux_sys_io_uring_enter_before(tid, layout, call, status, flags);
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
