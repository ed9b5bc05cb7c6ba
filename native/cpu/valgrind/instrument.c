/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Inline counting. A basic block is a run of adjacent instructions without an exit in between; its
 * first instruction is preceded by
 *
 *   counters = GET(shadow word);  counters->count[id] += 1;  counters->dirty[id / GROUP] = 1
 *
 * which is seven host instructions and no call. Copies of a block, as in an unrolled loop, mark its
 * group once. */
#include "instrument.h"

#include "host_cpu.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_libcbase.h"
#include "tool.h"
#include "translations.h"

/* The word lies in the first shadow of rax; host_cpu.c uses those of rcx and rdx. */
Int counters_shadow_offset(void) { return offsetof(VexGuestAMD64State, guest_RAX); }

static IRExpr *assign(IRSB *sb, IRType type, IRExpr *value) {
  IRTemp temp = newIRTemp(sb->tyenv, type);
  addStmtToIRSB(sb, IRStmt_WrTmp(temp, value));
  return IRExpr_RdTmp(temp);
}

static IRExpr *plus(IRSB *sb, IRExpr *base, ULong offset) {
  return assign(sb, Ity_I64, IRExpr_Binop(Iop_Add64, base, IRExpr_Const(IRConst_U64(offset))));
}

static void add_counting(IRSB *sb, UInt id, Int shadow, Bool marks) {
  IRExpr *base = assign(sb, Ity_I64, IRExpr_Get(shadow, Ity_I64));
  IRExpr *cell = plus(sb, base, counter_displacement(id));
  IRExpr *count = assign(sb, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, cell));
  addStmtToIRSB(sb, IRStmt_Store(Iend_LE, cell, plus(sb, count, 1)));
  if (!marks) return;
  IRExpr *mark = plus(sb, base, mark_displacement(id));
  addStmtToIRSB(sb, IRStmt_Store(Iend_LE, mark, IRExpr_Const(IRConst_U8(1))));
}

static void add_access(IRSB *sb, IRExpr *address, Int size, IRExpr *guard) {
  IRExpr **arguments = mkIRExprVec_2(address, IRExpr_Const(IRConst_U64((ULong)size)));
  IRDirty *call = unsafeIRDirty_0_N(2, "memory_access", (void *)memory_access, arguments);
  if (guard) call->guard = guard;
  addStmtToIRSB(sb, IRStmt_Dirty(call));
}

static Int size_of(const IRSB *sb, const IRExpr *value) {
  return sizeofIRType(typeOfIRExpr(sb->tyenv, value));
}

static Int size_of_guarded_load(const IRLoadG *load) {
  IRType result, memory;
  typeOfIRLoadGOp(load->cvt, &result, &memory);
  return sizeofIRType(memory);
}

/* Each load and each store of the statement; a compare-and-swap and a read-modify helper are a load
 * and a store. */
static void add_accesses(IRSB *sb, const IRStmt *s) {
  switch (s->tag) {
    case Ist_WrTmp: {
      const IRExpr *data = s->Ist.WrTmp.data;
      if (data->tag == Iex_Load)
        add_access(sb, data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty), NULL);
      break;
    }
    case Ist_Store:
      add_access(sb, s->Ist.Store.addr, size_of(sb, s->Ist.Store.data), NULL);
      break;
    case Ist_LoadG: {
      const IRLoadG *load = s->Ist.LoadG.details;
      add_access(sb, load->addr, size_of_guarded_load(load), load->guard);
      break;
    }
    case Ist_StoreG: {
      const IRStoreG *store = s->Ist.StoreG.details;
      add_access(sb, store->addr, size_of(sb, store->data), store->guard);
      break;
    }
    case Ist_CAS: {
      const IRCAS *cas = s->Ist.CAS.details;
      Int size = size_of(sb, cas->dataLo) * (cas->dataHi ? 2 : 1);
      add_access(sb, cas->addr, size, NULL);
      add_access(sb, cas->addr, size, NULL);
      break;
    }
    case Ist_Dirty: {
      const IRDirty *call = s->Ist.Dirty.details;
      if (call->mFx == Ifx_None) break;
      add_access(sb, call->mAddr, call->mSize, call->guard);
      if (call->mFx == Ifx_Modify) add_access(sb, call->mAddr, call->mSize, call->guard);
      break;
    }
    default:
      break;
  }
}

typedef struct run {
  Addr start, end;
  UInt instructions;
  Int next; /* statement after the run */
} run;

/* The basic block that starts at statement `at`, an IMark. An exit that repeats its own
 * instruction (a failed compare-and-swap) does not end a block. */
static run scan(const IRSB *sb, Int at) {
  run r = {0, 0, 0, at};
  Addr instruction = 0;
  Bool exit_seen = False;
  for (; r.next < sb->stmts_used; r.next++) {
    const IRStmt *s = sb->stmts[r.next];
    if (s->tag == Ist_Exit && s->Ist.Exit.dst->Ico.U64 != instruction) exit_seen = True;
    if (s->tag != Ist_IMark) continue;
    instruction = s->Ist.IMark.addr;
    if (!r.instructions)
      r.start = instruction;
    else if (exit_seen || instruction != r.end)
      return r;
    r.end = instruction + s->Ist.IMark.len;
    r.instructions++;
  }
  return r;
}

IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                 IRType host_word) {
  (void)extents, (void)host, (void)guest_word, (void)host_word;
  IRSB *out = deepCopyIRSBExceptStmts(in);
  Int shadow = layout->total_sizeB + counters_shadow_offset(), next_block = -1;
  UInt id = NO_BLOCK;
  image_role role = image_role_of(closure->nraddr);
  note_caller(out, role, layout->total_sizeB);
  if (in->jumpkind == Ijk_NoDecode) translation_is_of_this_run(); /* VEX says so in the log */
  for (Int i = 0; i < in->stmts_used; i++) {
    IRStmt *s = in->stmts[i];
    if (s->tag == Ist_NoOp) continue;
    if (s->tag == Ist_Dirty) choose_cpuid(s->Ist.Dirty.details, role);
    s = follow_mxcsr(out, s, layout->total_sizeB);
    if (options.memory && id != NO_BLOCK) add_accesses(out, s);
    addStmtToIRSB(out, s);
    if (s->tag == Ist_IMark && i >= next_block && window_adds_counters()) {
      run r = scan(in, i);
      UInt bytes = (UInt)(r.end - r.start), before = id;
      code_place place = image_place(r.start);
      id = block_of(place, (const void *)r.start, bytes, r.instructions);
      if (id != NO_BLOCK) {
        add_counting(out, id, shadow, id != before);
        translation_counts(id, id != before, r.start, bytes, r.instructions);
      } else if (place.image != NO_IMAGE) {
        translation_is_of_this_run(); /* there were too many blocks */
      }
      next_block = r.next;
    }
  }
  return out;
}
