/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Signals that Valgrind catches and has no action for: those that stop a process (the terminal's
 * stop key, a background job at the terminal), and SIGSTKFLT, which ends it. The program's call
 * would be interrupted, and the program go on. So the kernel acts on those that the program leaves
 * alone. And signals that Valgrind throws away where a program executes another. */
#include "left_signals.h"

#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

extern Int VG_(gettid)(void);
extern SysRes VG_(do_sys_sigaction)(Int, const vki_sigaction_toK_t *, vki_sigaction_fromK_t *);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId, Int, vki_sigset_t *, vki_sigset_t *);

static Bool has_no_action(Int signal) {
  return signal == VKI_SIGTSTP || signal == VKI_SIGTTIN || signal == VKI_SIGTTOU ||
         signal == VKI_SIGSTKFLT;
}

Bool signal_is_left(Int signal) {
  vki_sigaction_fromK_t programs;
  return has_no_action(signal) && !sr_isError(VG_(do_sys_sigaction)(signal, NULL, &programs)) &&
         programs.ksa_handler == VKI_SIG_DFL;
}

/* Has Valgrind's handler installed again, or left out (see native_kernels.c). */
static void follow_program(Int signal) {
  vki_sigaction_fromK_t valgrinds;
  VG_(sigaction)(signal, NULL, &valgrinds);
  VG_(sigaction)(signal, &valgrinds, NULL);
}

/* To the kernel, once it is not blocked. The program's handler may have served (SA_RESETHAND). */
static void send_again(Int signal) {
  follow_program(signal);
  xp_system_call(__NR_tgkill, VG_(getpid)(), VG_(gettid)(), signal, 0);
}

Bool left_signal_returns(Int signal) {
  const Bool is_left = signal_is_left(signal);
  if (is_left) send_again(signal);
  return is_left;
}

void left_signals_after_call(UInt call, const UWord *arguments) {
  if (call == __NR_rt_sigaction && has_no_action((Int)arguments[0]))
    follow_program((Int)arguments[0]);
}

/* Returns when a stopped process has been continued. */
static void let_act(Int signal) {
  vki_sigset_t mask, before;
  send_again(signal);
  VG_(sigemptyset)(&mask);
  VG_(sigaddset)(&mask, signal);
  VG_(sigprocmask)(VKI_SIG_UNBLOCK, &mask, &before);
  VG_(sigprocmask)(VKI_SIG_SETMASK, &before, NULL);
}

/* Translated code runs with all signals blocked; Valgrind then takes those that are pending. */
extern Int __real_vgPlain_sigtimedwait_zero(const vki_sigset_t *, vki_siginfo_t *);
extern Int __wrap_vgPlain_sigtimedwait_zero(const vki_sigset_t *, vki_siginfo_t *);

/* Valgrind has taken back all its handlers, which it has otherwise for this one. */
static Bool is_executing(void) {
  vki_sigaction_fromK_t valgrinds;
  return VG_(sigaction)(VKI_SIGSEGV, NULL, &valgrinds) == 0 &&
         (valgrinds.ksa_handler == VKI_SIG_DFL || valgrinds.ksa_handler == VKI_SIG_IGN);
}

/* Natively their handlers would have run before the call. */
static void keep_handled(vki_sigset_t *set) {
  vki_sigset_t blocked;
  vki_sigaction_fromK_t programs;
  VG_(do_sys_sigprocmask)(VG_(get_running_tid)(), VKI_SIG_BLOCK, NULL, &blocked);
  for (Int signal = 1; signal <= _VKI_NSIG; signal++)
    if (VG_(sigismember)(&blocked, signal) ||
        sr_isError(VG_(do_sys_sigaction)(signal, NULL, &programs)) ||
        programs.ksa_handler == VKI_SIG_DFL || programs.ksa_handler == VKI_SIG_IGN)
      VG_(sigdelset)(set, signal);
}

Int __wrap_vgPlain_sigtimedwait_zero(const vki_sigset_t *set, vki_siginfo_t *info) {
  vki_sigset_t thrown_away = *set;
  /* It throws away what is pending: what the program blocks, and what would end it, in a child that
   * its parent ends at once. */
  if (is_executing()) {
    keep_handled(&thrown_away);
    return __real_vgPlain_sigtimedwait_zero(&thrown_away, info);
  }
  Int signal = __real_vgPlain_sigtimedwait_zero(set, info);
  if (!signal_is_left(signal)) return signal;
  let_act(signal);
  return 0;
}
