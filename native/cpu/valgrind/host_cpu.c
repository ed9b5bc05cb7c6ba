/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* What the program sees of the processor. PoCL's compiler sees the real one, since its kernels run
 * natively (native_kernels.c) and the native run's kernel cache is keyed by it. Everybody else sees
 * what VEX can translate well. Other users of LLVM run what they compile under Valgrind, so it
 * depends on who called the compiler. */
#include "host_cpu.h"

#include "libvex_guest_amd64.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "tool.h"
#include "translations.h"

/* VEX's CPUID helpers. The second one models a machine without AVX2 and FMA. */
typedef void cpuid_helper(VexGuestAMD64State *, ULong, ULong, ULong);
extern cpuid_helper amd64g_dirtyhelper_CPUID_avx2, amd64g_dirtyhelper_CPUID_avx_and_cx16;

extern ULong amd64g_check_ldmxcsr(ULong), amd64g_create_mxcsr(ULong);

Bool fma_was_hidden;

/* ---- the registers --------------------------------------------------------------------------- */

typedef struct registers {
  UInt a, b, c, d;
} registers;

static registers cpuid(UInt leaf, UInt subleaf) {
  registers r = {leaf, 0, subleaf, 0};
  __asm__ volatile("cpuid" : "+a"(r.a), "=b"(r.b), "+c"(r.c), "=d"(r.d));
  return r;
}

static ULong xgetbv(UInt which) {
  UInt low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(which));
  return (ULong)high << 32 | low;
}

Bool host_has_avx(void) {
  enum { AVX_AND_OSXSAVE = 3 << 27, XMM_AND_YMM = 6 };
  return (cpuid(1, 0).c & AVX_AND_OSXSAVE) == AVX_AND_OSXSAVE &&
         (xgetbv(0) & XMM_AND_YMM) == XMM_AND_YMM;
}

/* ---- who asks -------------------------------------------------------------------------------- */

/* Words of the running thread in the first shadow state; see also counters_shadow_offset(). */
static Int mxcsr_shadow_offset(void) { return offsetof(VexGuestAMD64State, guest_RCX); }

static Int caller_shadow_offset(void) { return offsetof(VexGuestAMD64State, guest_RDX); }

static IRExpr *assign(IRSB *sb, IRType type, IRExpr *value) {
  IRTemp temp = newIRTemp(sb->tyenv, type);
  addStmtToIRSB(sb, IRStmt_WrTmp(temp, value));
  return IRExpr_RdTmp(temp);
}

static void put_word(IRSB *sb, Int offset, IRExpr *value) {
  addStmtToIRSB(sb, IRStmt_Put(offset, value));
}

void note_caller(IRSB *sb, image_role role, Int shadow_state) {
  if (role == ROLE_POCL || role == ROLE_LOADER)
    put_word(sb, shadow_state + caller_shadow_offset(),
             IRExpr_Const(IRConst_U64(role == ROLE_POCL)));
}

/* The running thread is inside PoCL: it has not been in the loader since. */
static Bool pocl_asks(void) {
  ULong in_pocl;
  ThreadId tid = VG_(get_running_tid)();
  VG_(get_shadow_regs_area)
  (tid, (UChar *)&in_pocl, 1, caller_shadow_offset(), sizeof in_pocl);
  return in_pocl && thread_is_off(tid);
}

static Bool compiles_kernels(image_role role) {
  return kernels_are_known() && (role == ROLE_POCL || role == ROLE_COMPILER);
}

/* ---- CPUID ----------------------------------------------------------------------------------- */

static void hidden_cpuid(VexGuestAMD64State *guest, ULong f16c, ULong rdrand, ULong rdseed) {
  amd64g_dirtyhelper_CPUID_avx_and_cx16(guest, f16c, rdrand, rdseed);
}

static void pocls_cpuid(VexGuestAMD64State *guest, ULong f16c, ULong rdrand, ULong rdseed) {
  if (!pocl_asks()) {
    hidden_cpuid(guest, f16c, rdrand, rdseed);
    return;
  }
  registers r = cpuid((UInt)guest->guest_RAX, (UInt)guest->guest_RCX);
  guest->guest_RAX = r.a;
  guest->guest_RBX = r.b;
  guest->guest_RCX = r.c;
  guest->guest_RDX = r.d;
}

/* VEX emulates FMA lane by lane, hundreds of times slower than the AVX code that programs and
 * libraries fall back to. */
void choose_cpuid(IRDirty *call, image_role role) {
  Bool hides = call->cee->addr == (void *)amd64g_dirtyhelper_CPUID_avx2;
  if (!hides && call->cee->addr != (void *)amd64g_dirtyhelper_CPUID_avx_and_cx16) return;
  fma_was_hidden |= hides;
  translation_is_of_this_run(); /* PoCL may not be known yet */
  call->cee->addr = (void *)hidden_cpuid;
  if (compiles_kernels(role)) call->cee->addr = (void *)pocls_cpuid;
  call->cee->name = "cpuid";
}

static void pocls_xgetbv(VexGuestAMD64State *guest) {
  if (!pocl_asks()) return;
  ULong value = xgetbv((UInt)guest->guest_RCX);
  guest->guest_RAX = (UInt)value;
  guest->guest_RDX = value >> 32;
}

static void set_effect(IRDirty *call, Int index, IREffect effect, Int offset) {
  call->fxState[index].fx = effect;
  call->fxState[index].offset = (UShort)offset;
  call->fxState[index].size = sizeof(ULong);
}

/* After VEX's own XGETBV, which answers with constants. */
void add_xgetbv(IRSB *sb, image_role role) {
  translation_is_of_this_run();
  if (!compiles_kernels(role)) return;
  IRDirty *call =
      unsafeIRDirty_0_N(0, "xgetbv", (void *)pocls_xgetbv, mkIRExprVec_1(IRExpr_GSPTR()));
  call->nFxState = 3;
  set_effect(call, 0, Ifx_Modify, offsetof(VexGuestAMD64State, guest_RAX));
  set_effect(call, 1, Ifx_Modify, offsetof(VexGuestAMD64State, guest_RDX));
  set_effect(call, 2, Ifx_Read, offsetof(VexGuestAMD64State, guest_RCX));
  IRStmt *next =
      sb->stmts[--sb->stmts_used]; /* VEX wants it last: the next instruction's address */
  addStmtToIRSB(sb, IRStmt_Dirty(call));
  addStmtToIRSB(sb, next);
}

/* ---- MXCSR ----------------------------------------------------------------------------------- */

/* VEX knows the rounding mode only. Whether subnormal numbers are flushed to zero matters to the
 * kernels that the thread runs, so the last value set is kept beside it. */
enum { FLUSHES = 0x8040 };

UInt mxcsr_flushes(ThreadId tid) {
  ULong set;
  VG_(get_shadow_regs_area)(tid, (UChar *)&set, 1, mxcsr_shadow_offset(), sizeof set);
  return set & FLUSHES;
}

/* `s` is an assignment of a helper's result: LDMXCSR's has the new value as its argument,
 * STMXCSR's gives the value to store. */
IRStmt *follow_mxcsr(IRSB *sb, IRStmt *s, Int shadow_state) {
  Int word = shadow_state + mxcsr_shadow_offset();
  if (s->tag != Ist_WrTmp || s->Ist.WrTmp.data->tag != Iex_CCall) return s;
  IRExpr *data = s->Ist.WrTmp.data;
  void *helper = data->Iex.CCall.cee->addr;
  if (helper == (void *)amd64g_check_ldmxcsr) put_word(sb, word, data->Iex.CCall.args[0]);
  if (helper != (void *)amd64g_create_mxcsr) return s;
  IRExpr *known = assign(sb, Ity_I64, data);
  IRExpr *set = assign(sb, Ity_I64, IRExpr_Get(word, Ity_I64));
  IRExpr *flushes =
      assign(sb, Ity_I64, IRExpr_Binop(Iop_And64, set, IRExpr_Const(IRConst_U64(FLUSHES))));
  return IRStmt_WrTmp(s->Ist.WrTmp.tmp, IRExpr_Binop(Iop_Or64, known, flushes));
}
