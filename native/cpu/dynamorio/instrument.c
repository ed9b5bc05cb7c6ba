/* SPDX-License-Identifier: Apache-2.0 */
/* Code is cut into basic blocks by the rules of the Valgrind tool (VEX's), so that both have the
 * same blocks. Each block is counted at its start; when it enters a trace its counting code is
 * labelled, so that traces.c can replace it. */
#include "client.h"

/* VEX's longest superblock, in instructions. */
enum { LONGEST = 60 };

static bool is_repeated(instr_t *i) {
  switch (instr_get_opcode(i)) {
    case OP_rep_ins:
    case OP_rep_outs:
    case OP_rep_movs:
    case OP_rep_stos:
    case OP_rep_lods:
    case OP_rep_cmps:
    case OP_repne_cmps:
    case OP_rep_scas:
    case OP_repne_scas:
      return true;
    default:
      return false;
  }
}

/* A client request to Valgrind, of which DynamoRIO keeps one instruction (see unanswered()). */
static void *const REQUEST = (void *)0x5850;

static bool is_request(instr_t *i) { return instr_get_note(i) == REQUEST; }

/* Iterations of these also end on a comparison, not only on the counter. */
static bool is_comparison(instr_t *i) {
  int op = instr_get_opcode(i);
  return op == OP_rep_cmps || op == OP_repne_cmps || op == OP_rep_scas || op == OP_repne_scas;
}

typedef enum end {
  UNKNOWN,
  GOES_ON,
  ENDS_BLOCK,     /* VEX may exit here, to report a floating-point mode that it does not emulate */
  ENDS_SUPERBLOCK /* VEX starts a new block, as after a jump */
} end;

static end end_of(instr_t *i, int opcode) {
  switch (opcode) {
    case OP_fldcw:
    case OP_fldenv:
    case OP_frstor:
    case OP_ldmxcsr:
    case OP_vldmxcsr:
      return ENDS_BLOCK;
    case OP_pause:
    case OP_clflush:
      return ENDS_SUPERBLOCK;
    default:
      return instr_is_cti(i) || instr_is_syscall(i) || is_repeated(i) ? ENDS_SUPERBLOCK : GOES_ON;
  }
}

/* The answer depends on the opcode, but for interrupts and requests. */
static end end_after(instr_t *i) {
  static uint8_t known[OP_LAST + 1];
  int opcode = instr_get_opcode(i);
  if (opcode == OP_int) return end_of(i, opcode);
  if (opcode == OP_nop && is_request(i)) return ENDS_SUPERBLOCK;
  if (known[opcode] == UNKNOWN) known[opcode] = (uint8_t)end_of(i, opcode);
  return known[opcode];
}

/* ---- repeated string instructions ------------------------------------------------------------ */
/* Counts one per iteration, and one for the closing test: all but the first are executions of the
 * block that consists of this instruction alone. The counter register gives their number. */

static void count_compared(uint32_t id, int ends_when_zero) {
  enum { ZERO_FLAG = 0x40 };
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_CONTROL | DR_MC_INTEGER};
  dr_get_mcontext(dr_get_current_drcontext(), &context);
  uint64_t before = thread_kept(), rounds = before - context.xcx;
  bool ended_early = before && ((context.xflags & ZERO_FLAG) != 0) == (ends_when_zero != 0);
  thread_count(id, rounds - (ended_early ? 1 : 0));
}

static void insert_rounds(void *drcontext, instrlist_t *code, instr_t *where, uint32_t id) {
  static const live_set all = {~0u, ~0u};
  uint32_t taken = LIVE_REGISTER(DR_REG_RCX);
  scratch base = take_register(drcontext, code, where, all, taken, SPILL_SLOT_1);
  taken |= LIVE_REGISTER(base.reg);
  scratch rounds = take_register(drcontext, code, where, all, taken, SPILL_SLOT_2);
  thread_insert_kept(drcontext, code, where, rounds.reg);
  thread_insert_base(drcontext, code, where, base.reg);
  insert_mark(drcontext, code, where, base.reg, id);
  /* The counter register is zero now; none of these touches the flags. */
  insert_add(drcontext, code, where, base.reg, id, DR_REG_RCX, rounds.reg);
  instrlist_meta_preinsert(
      code, where,
      INSTR_CREATE_mov_imm(drcontext, opnd_create_reg(DR_REG_ECX), OPND_CREATE_INT32(0)));
  give_register_back(drcontext, code, where, rounds);
  give_register_back(drcontext, code, where, base);
}

static void insert_repeated(void *drcontext, instrlist_t *code, instr_t *i, app_pc at) {
  lock();
  uint32_t id = block_of(image_place(at), at, (size_t)instr_length(drcontext, i), 1);
  unlock();
  if (id == NO_BLOCK) return;
  instr_t *behind = instr_get_next(i);
  if (!instr_writes_to_exact_reg(i, DR_REG_RCX, DR_QUERY_INCLUDE_COND_DSTS))
    return; /* counts in ecx */
  thread_insert_keep(drcontext, code, i, DR_REG_RCX);
  if (is_comparison(i)) {
    int op = instr_get_opcode(i);
    dr_insert_clean_call(drcontext, code, behind, (void *)count_compared, false, 2,
                         OPND_CREATE_INT32((int)id),
                         OPND_CREATE_INT32(op == OP_repne_cmps || op == OP_repne_scas));
  } else {
    insert_rounds(drcontext, code, behind, id);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A fragment ends where VEX's superblock would, or after several complete ones: otherwise the
 * following code would be cut differently. */
static void truncate(void *drcontext, instrlist_t *code) {
  unsigned length = 0;
  instr_t *whole = NULL; /* last one of a complete superblock */
  for (instr_t *i = instrlist_first_app(code); i; i = instr_get_next_app(i)) {
    if (++length < LONGEST && end_after(i) != ENDS_SUPERBLOCK) continue;
    whole = i;
    length = 0;
  }
  if (!length || !whole) return;
  for (instr_t *i = instr_get_next_app(whole), *next; i; i = next) {
    next = instr_get_next_app(i);
    instrlist_remove(code, i);
    instr_destroy(drcontext, i);
  }
}

/* DynamoRIO pretends to be Valgrind: it replaces a request by a label and an instruction, and
 * answers. Libraries (hwloc) would then behave differently than natively. Without the label there
 * is no answer, and the program gets its default. */
static void unanswered(void *drcontext, instrlist_t *code) {
  for (instr_t *i = instrlist_first(code), *next; i; i = next) {
    next = instr_get_next(i);
    if (!instr_is_label(i) || !next || !instr_is_app(next) || !instr_get_note(i) ||
        instr_get_note(i) != instr_get_note(next))
      continue;
    instr_t *nothing = INSTR_XL8(INSTR_CREATE_nop(drcontext), instr_get_app_pc(next));
    instr_set_note(nothing, REQUEST);
    instrlist_replace(code, next, nothing);
    instr_destroy(drcontext, next);
    instrlist_remove(code, i);
    instr_destroy(drcontext, i);
    next = instr_get_next(nothing);
  }
}

typedef struct run {
  instr_t *first;
  app_pc start, end;
  uint32_t instructions;
  bool waits; /* see insert_count */
} run;

static void insert_run(void *drcontext, instrlist_t *code, const run *r, bool for_trace,
                       uint32_t *marked) {
  lock();
  uint32_t id =
      block_of(image_place(r->start), r->start, (size_t)(r->end - r->start), r->instructions);
  unlock();
  if (id == NO_BLOCK) return;
  if (for_trace) trace_label_block(drcontext, code, r->first, id);
  /* If the window turns in the middle of a fragment, a mark may have gone to the unread
   * reservation. */
  insert_count(drcontext, code, r->first, live_at(drcontext, r->first, SEARCH_COLD), id,
               options.has_window || *marked != id / GROUP, r->waits);
  if (for_trace) trace_label_end(drcontext, code, r->first);
  *marked = id / GROUP;
}

static void count_runs(void *drcontext, instrlist_t *code, bool for_trace) {
  uint32_t marked = NO_BLOCK;
  unsigned length = 0; /* of the superblock so far */
  run r = {0};
  truncate(drcontext, code);
  for (instr_t *i = instrlist_first_app(code), *next; i; i = next) {
    next = instr_get_next_app(i);
    app_pc at = instr_get_app_pc(i);
    if (!r.first) r = (run){i, at, at, 0, false};
    r.end = at + instr_length(drcontext, i);
    r.instructions++;
    r.waits |= waits_for_uppers(i);
    end after = ++length == LONGEST ? ENDS_SUPERBLOCK : end_after(i);
    if (after == ENDS_SUPERBLOCK) length = 0;
    if (after == GOES_ON && next && (instr_get_app_pc(next) == r.end || is_request(next))) continue;
    insert_run(drcontext, code, &r, for_trace, &marked);
    if (after == ENDS_SUPERBLOCK && is_repeated(i)) insert_repeated(drcontext, code, i, at);
    r.first = NULL;
  }
}

/* To translate a state in code that changes itself, DynamoRIO decodes its copy of the block, and
 * has the copy's addresses until it puts the program's in their place. The distance to those, or 0.
 */
static ptrdiff_t from_copy(app_pc start, instrlist_t *code) {
  instr_t *first = instrlist_first_app(code);
  app_pc at = first ? instr_get_app_pc(first) : start;
  return dr_memory_is_dr_internal(at) ? start - at : 0;
}

static void move_addresses(instrlist_t *code, ptrdiff_t by) {
  for (instr_t *i = instrlist_first_app(code); by && i; i = instr_get_next_app(i))
    instr_set_translation(i, instr_get_app_pc(i) + by);
}

static dr_emit_flags_t instrument_block(void *drcontext, app_pc start, instrlist_t *code,
                                        bool for_trace, bool translating) {
  unanswered(drcontext, code);
  start_up_instrument(drcontext, start, code, for_trace);
  lock();
  const bool counts = !image_never_counts(start),
             is_kernel = !counts && image_is_native_kernel(start);
  if (!image_holds(start)) unwritable_block();
  unlock();
  if (window_excludes_process()) return DR_EMIT_DEFAULT;
  if (is_kernel) {
    kernel_insert(drcontext, start, code);
    return DR_EMIT_DEFAULT;
  }
  const ptrdiff_t distance = translating ? from_copy(start, code) : 0;
  move_addresses(code, distance);
  if (counts) count_runs(drcontext, code, for_trace);
  split_call(drcontext, code);
  move_addresses(code, -distance);
  boundary_insert(drcontext, start, code);
  if (translating) decode_raw(drcontext, code);
  return DR_EMIT_DEFAULT;
}

dr_emit_flags_t instrument(void *drcontext, void *tag, instrlist_t *code, bool for_trace,
                           bool translating) {
  app_pc start = dr_fragment_app_pc(tag);
  if (!shared_code_has(start))
    return instrument_block(drcontext, start, code, for_trace, translating);
  const size_t size = shared_code_size(code);
  instrument_block(drcontext, start, code, for_trace, translating);
  shared_code_insert(drcontext, start, size, code);
  return DR_EMIT_STORE_TRANSLATIONS;
}
