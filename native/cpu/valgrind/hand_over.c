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
typedef enum { WAITING = 3 } thread_status; /* VgTs_WaitSys */
extern void VG_(release_BigLock)(ThreadId, thread_status, const HChar *);
extern void VG_(acquire_BigLock)(ThreadId, const HChar *);
extern Bool VG_(in_generated_code);
extern UInt VG_(stats__n_xIndirs_32), VG_(stats__n_xIndir_misses_32);
extern UInt VG_(stats__n_xIndir_hits1_32), VG_(stats__n_xIndir_hits2_32);
extern UInt VG_(stats__n_xIndir_hits3_32);

/* Called by translated code. */
extern void xp_paused(VexGuestAMD64State *, Addr next);
extern void xp_pause(VexGuestAMD64State *, Addr next);

__asm__(
    ".text\n"
    "xp_paused:\n"
    "  sub $8, %rsp\n"
    "  call xp_pause\n"
    "  add $16, %rsp\n" /* not back into the block */
    "  jmp vgPlain_disp_cp_xindir\n");

void add_last_call(IRSB *sb, const HChar *name, void (*function)(VexGuestAMD64State *, Addr),
                   Addr code) {
  IRExpr *address = IRExpr_Const(IRConst_U64(code));
  IRExpr **arguments = mkIRExprVec_2(IRExpr_GSPTR(), address);
  IRDirty *call = unsafeIRDirty_0_N(0, name, (void *)function, arguments);
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
void xp_pause(VexGuestAMD64State *state, Addr next) {
  state->guest_RIP = next;
  if (!lock_is_wanted()) return;
  ThreadId tid = VG_(get_running_tid)();
  lock_hand_over(tid);
  lock_take_back(tid);
}

void pause_translate(IRSB *sb, Addr next) {
  sb->stmts_used--; /* VEX's last: the same address */
  add_last_call(sb, "xp_paused", xp_paused, next);
}
