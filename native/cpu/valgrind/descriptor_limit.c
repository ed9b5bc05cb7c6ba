/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The limit on descriptors. Valgrind refuses every hard limit but its own, above which its
 * descriptors lie: `ulimit -n 256` failed in a shell, and memcached did not start.
 * And it raises the soft limit for itself, which programs that are executed would find, with twelve
 * more each time, and not the one that the program set. */
#include "descriptor_limit.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"
#include "wrapped_call.h"

extern Int VG_(fd_soft_limit), VG_(fd_hard_limit);
extern Int VG_(getrlimit)(Int, struct vki_rlimit *);
extern Int VG_(setrlimit)(Int, const struct vki_rlimit *);
extern before_call __real_vgSysWrap_linux_sys_prlimit64_before,
    __wrap_vgSysWrap_linux_sys_prlimit64_before;

static Bool was_set; /* by the program, which then sees this hard limit: */
static ULong hard;

static ULong hard_limit(void) { return was_set ? hard : (ULong)VG_(fd_hard_limit); }

static Bool is_own(const UWord arguments[]) {
  const Int process = (Int)arguments[0];
  return (process == 0 || process == VG_(getpid)()) && arguments[1] == VKI_RLIMIT_NOFILE;
}

static Bool may_set(const struct vki_rlimit64 *limit) {
  const ULong most = VG_(geteuid)() == 0 ? (ULong)VG_(fd_hard_limit) : hard_limit();
  return limit->rlim_cur <= limit->rlim_max && limit->rlim_max <= most;
}

void __wrap_vgSysWrap_linux_sys_prlimit64_before(ThreadId tid, const void *layout,
                                                 call_arguments *call, void *status, UWord *flags) {
  const Bool own = is_own(call->arguments);
  const UWord given = call->arguments[2];
  struct vki_rlimit64 *const set = own ? (void *)given : NULL;
  struct vki_rlimit64 *const get = own ? (void *)call->arguments[3] : NULL;
  const ULong before = hard_limit();
  struct vki_rlimit64 accepted = {0, (ULong)VG_(fd_hard_limit)};
  if (set && VG_(am_is_valid_for_client)(given, sizeof *set, VKI_PROT_READ) && may_set(set)) {
    was_set = True;
    hard = set->rlim_max;
    accepted.rlim_cur = set->rlim_cur;
    call->arguments[2] = (UWord)&accepted;
  }
  __real_vgSysWrap_linux_sys_prlimit64_before(tid, layout, call, status, flags);
  call->arguments[2] = given;
  if (get && VG_(am_is_valid_for_client)((Addr)get, sizeof *get, VKI_PROT_WRITE))
    get->rlim_max = before;
}

/* Only the soft limit, which can be raised again; above it, Valgrind gets no descriptors. Below
 * LEAST it does not start. */
static struct vki_rlimit own_limit;
static Bool is_passed;

void descriptor_limit_before_exec(void) {
  enum { LEAST = 32 };
  is_passed = VG_(fd_soft_limit) >= LEAST && VG_(getrlimit)(VKI_RLIMIT_NOFILE, &own_limit) == 0;
  if (!is_passed) return;
  const struct vki_rlimit programs = {(UWord)VG_(fd_soft_limit), own_limit.rlim_max};
  VG_(setrlimit)(VKI_RLIMIT_NOFILE, &programs);
}

void descriptor_limit_after_failed_exec(void) {
  if (is_passed) VG_(setrlimit)(VKI_RLIMIT_NOFILE, &own_limit);
}
