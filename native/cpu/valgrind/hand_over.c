/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Translated code lets other threads run without going through Valgrind's scheduler, which takes
 * longer than a small kernel or a PAUSE. Such a call does not return into its block, which other
 * threads may discard meanwhile, but goes on at the dispatcher, as an indirect jump does. */
#include "hand_over.h"

#include "lock.h"
#include "pub_tool_threadstate.h"
#include "tool.h"

/* Declared in Valgrind's core. */
extern Bool VG_(in_generated_code);
extern UInt VG_(stats__n_xIndirs_32), VG_(stats__n_xIndir_misses_32);
extern UInt VG_(stats__n_xIndir_hits1_32), VG_(stats__n_xIndir_hits2_32);
extern UInt VG_(stats__n_xIndir_hits3_32);

/* Called by translated code. */
extern void xp_call_out(VexGuestAMD64State *, Addr, call_out *);

__asm__(
    ".text\n"
    "xp_call_out:\n"
    "  sub $8, %rsp\n"
    "  call *%rdx\n"
    "  add $16, %rsp\n" /* not back into the block */
    "  test %rax, %rax\n"
    "  jnz vgPlain_disp_cp_evcheck_fail\n"
    "  jmp vgPlain_disp_cp_xindir\n");

void add_call_out(IRSB *sb, call_out *function, Addr code) {
  IRExpr *address = IRExpr_Const(IRConst_U64(code));
  IRExpr *called = IRExpr_Const(IRConst_U64((Addr)function));
  IRExpr **arguments = mkIRExprVec_3(IRExpr_GSPTR(), address, called);
  IRDirty *call = unsafeIRDirty_0_N(0, "xp_call_out", (void *)xp_call_out, arguments);
  call->nFxState = 1;
  call->fxState[0].fx = Ifx_Modify;
  call->fxState[0].size = sizeof(VexGuestAMD64State);
  addStmtToIRSB(sb, IRStmt_Dirty(call));
  /* What VEX ends a block with. */
  addStmtToIRSB(sb, IRStmt_Put(offsetof(VexGuestAMD64State, guest_RIP), address));
}

/* As Valgrind's scheduler does when a thread stops running translated code; it checks that the
 * counts of indirect jumps, which nobody reads, are 0 whenever one starts. */
void lock_hand_over(ThreadId tid) {
  VG_(in_generated_code) = False;
  VG_(stats__n_xIndirs_32) = VG_(stats__n_xIndir_misses_32) = 0;
  VG_(stats__n_xIndir_hits1_32) = VG_(stats__n_xIndir_hits2_32) = 0;
  VG_(stats__n_xIndir_hits3_32) = 0;
  VG_(release_BigLock)(tid, WAITING, "hand-over");
}

void lock_take_back(ThreadId tid) {
  VG_(acquire_BigLock)(tid, "hand-over");
  enter_translated_code(tid);
}

void enter_translated_code(ThreadId tid) {
  VG_(in_generated_code) = True;
  thread_runs(tid, 0);
}

/* Who executes PAUSE waits for another thread, which may wait for the lock. Valgrind lets it go on
 * for 300 blocks first. */
static UWord pause(VexGuestAMD64State *state, Addr next) {
  state->guest_RIP = next;
  if (!lock_is_wanted()) return False;
  ThreadId tid = VG_(get_running_tid)();
  lock_hand_over(tid);
  lock_take_back(tid);
  return False;
}

void pause_translate(IRSB *sb, Addr next) {
  sb->stmts_used--; /* VEX's last: the same address */
  add_call_out(sb, pause, next);
}
