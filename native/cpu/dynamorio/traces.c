/* SPDX-License-Identifier: Apache-2.0 */
/* Counting in traces: hot code, made of blocks that DynamoRIO found to run one after the other.
 * Each exit is counted instead of each block, as an execution of the path that led to it:
 *
 *   block 1; branch out of the trace: count path (1), go
 *   block 2; branch out of the trace: count path (1, 2), go
 *   count path (1, 2, 3); block 3; jump to wherever
 *
 * so a loop counts once per iteration, whatever its blocks. A path is counted early, at the start
 * of its last block, if that block makes a system call (which may take long) or leaves by an
 * indirect jump, whose exit cannot be distinguished from its continuation. Our own functions,
 * including the one that cuts, are in a separate library and reached by such a jump, so nothing is
 * pending there. */
#include <string.h>

#include "client.h"

/* Notes of labels. */
static const uint64_t BLOCK = 0x5850ull << 48, END = 0x5851ull << 48;

static void insert_label(void *drcontext, instrlist_t *code, instr_t *where, uint64_t note) {
  instr_t *label = INSTR_CREATE_label(drcontext);
  instr_set_note(label, (void *)note);
  instrlist_meta_preinsert(code, where, label);
}

void trace_label_block(void *drcontext, instrlist_t *code, instr_t *where, uint32_t id) {
  insert_label(drcontext, code, where, BLOCK | id);
}

void trace_label_end(void *drcontext, instrlist_t *code, instr_t *where) {
  insert_label(drcontext, code, where, END);
}

static bool says(instr_t *i, uint64_t what) {
  return instr_is_label(i) && ((uint64_t)instr_get_note(i) & 0xffffull << 48) == what;
}

/* ---- markers: which path is not counted yet, for who must leave in the middle -----------------
 */

/* nop path(%r15), which does nothing and which no compiler emits. */
static const uint32_t MARKER = 0x871f0f41;

typedef struct marker {
  uint32_t code, path;
} marker;

static instr_t *marker_of(void *drcontext, uint32_t path) {
  marker m = {MARKER, path};
  instr_t *i = raw_instruction(drcontext, (const byte *)&m, sizeof m);
  instr_set_meta(i);
  return i;
}

bool trace_has_marker(const byte *pc) {
  uint32_t code;
  memcpy(&code, pc, sizeof code);
  return code == MARKER;
}

uint32_t trace_pending(void *drcontext, byte *start, const byte *fault) {
  uint32_t path = NO_PATH;
  for (byte *pc = start; pc < fault; pc = decode_next_pc(drcontext, pc)) {
    if (!pc) return NO_PATH; /* not understood */
    marker m;
    memcpy(&m, pc, sizeof m);
    if (m.code == MARKER) path = m.path;
  }
  return path < paths_known() ? path : NO_PATH;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* The path executed but not counted yet. */
typedef struct pending {
  uint32_t path, marked; /* as in the markers */
  instr_t *last;         /* label of its last block if adjacent, else NULL */
  instr_t *marker;       /* inserted after the label */
  bool waits;            /* see insert_count */
} pending;

static void add_block(instr_t *label, pending *p) {
  lock();
  p->path = path_with(p->path, (uint32_t)(uint64_t)instr_get_note(label));
  unlock();
  p->last = label;
  p->marker = NULL;
}

/* Before an instruction that may leave. */
static void mark(void *drcontext, instrlist_t *code, instr_t *i, pending *p) {
  if (p->marked == p->path) return;
  p->marked = p->path;
  p->marker = marker_of(drcontext, p->path);
  instrlist_preinsert(code, i, p->marker);
}

/* The code that counts the block alone. */
static void remove_count(void *drcontext, instrlist_t *code, instr_t *label) {
  for (instr_t *i = instr_get_next(label), *next; !says(i, END); i = next) {
    next = instr_get_next(i);
    instrlist_remove(code, i);
    instr_destroy(drcontext, i);
  }
}

/* Before `i`, or better before its block, where flags and registers are more often free. */
static void count_now(void *drcontext, instrlist_t *code, instr_t *i, pending *p) {
  instr_t *where = p->last ? p->last : i;
  if (p->path == NO_PATH) return;
  insert_count(drcontext, code, where, live_at(drcontext, where, SEARCH_HOT), PATH_CELLS + p->path,
               true, p->waits);
  p->path = NO_PATH;
  if (p->last && p->marker) { /* it follows the current counting code */
    instrlist_replace(code, p->marker, marker_of(drcontext, NO_PATH));
    instr_destroy(drcontext, p->marker);
    p->marked = NO_PATH;
  }
  p->last = p->marker = NULL;
}

/* Invertible conditions of two-way branches. */
static bool has_opposite(void *drcontext, instr_t *branch) {
  int op = instr_get_opcode(branch);
  bool simple = (op >= OP_jo && op <= OP_jnle) || (op >= OP_jo_short && op <= OP_jnle_short);
  app_pc behind = decode_next_pc(drcontext, instr_get_app_pc(branch));
  return simple && instr_get_branch_target_pc(branch) != behind;
}

/* The trace continues after the branch or at its target; the other way counts. */
static void count_way_out(void *drcontext, instrlist_t *code, instr_t *branch, instr_t *next,
                          const pending *p) {
  instr_t *on = INSTR_CREATE_label(drcontext);
  app_pc target = instr_get_branch_target_pc(branch), out = way_out(drcontext, branch, next);
  int opcode = instr_get_opcode(branch);
  if (opcode >= OP_jo_short && opcode <= OP_jnle_short) opcode += OP_jo - OP_jo_short;
  int opposite = OP_jo + ((opcode - OP_jo) ^ 1), leaves = out == target ? opcode : opposite;
  instr_t *skip =
      INSTR_CREATE_jcc(drcontext, leaves == opcode ? opposite : opcode, opnd_create_instr(on));
  instrlist_meta_preinsert(code, branch, skip);
  insert_count_taken(drcontext, code, branch, live_from(drcontext, out, SEARCH_HOT),
                     PATH_CELLS + p->path, leaves);
  instrlist_meta_postinsert(code, branch, on);
}

static void leave_or_stay(void *drcontext, instrlist_t *code, instr_t *i, pending *p) {
  instr_t *next = instr_get_next_app(i);
  if (next && instr_is_cbr(i) && has_opposite(drcontext, i)) {
    if (p->path != NO_PATH) count_way_out(drcontext, code, i, next, p);
    p->last = p->marker = NULL;
  } else if (!next || instr_is_cbr(i) || instr_is_mbr(i) || instr_is_syscall(i)) {
    count_now(drcontext, code, i, p);
  }
}

dr_emit_flags_t instrument_trace(void *drcontext, void *tag, instrlist_t *code, bool translating) {
  pending p = {NO_PATH, NO_PATH, NULL, NULL, false};
  (void)tag;
  if (!translating) thread_extends_trace(drcontext, NULL);
  for (instr_t *i = instrlist_first(code); i; i = instr_get_next(i)) {
    if (says(i, BLOCK)) {
      remove_count(drcontext, code, i);
      add_block(i, &p);
    } else if (instr_is_app(i)) {
      p.waits |= waits_for_uppers(i);
      leave_or_stay(drcontext, code, i, &p);
      if (can_fault(i)) mark(drcontext, code, i, &p);
    }
  }
  if (translating) decode_raw(drcontext, code);
  return DR_EMIT_DEFAULT;
}

/* DynamoRIO keeps a block private to its thread if it makes a system call that we do not intercept.
 * When a trace runs past another one that starts with such a block, DynamoRIO rebuilds the block
 * without linking it. Links to it are then in two lists, one can become a cycle, and the thread
 * hangs. */
static bool makes_system_call(void *drcontext, app_pc pc) {
  enum { LONGEST_BLOCK = 256 }; /* DynamoRIO's -max_bb_instrs */
  instr_t i;
  bool ends = false;
  instr_init(drcontext, &i);
  for (int n = 0; n < LONGEST_BLOCK && !ends && decode_at(drcontext, pc, &i); n++) {
    ends = instr_is_cti(&i) || instr_is_syscall(&i);
    pc += instr_length(drcontext, &i);
  }
  bool call = !ends || instr_is_syscall(&i);
  instr_free(drcontext, &i);
  return call;
}

static bool can_continue_past(void *drcontext, void *tag) {
  return !dr_trace_exists_at(drcontext, tag) ||
         !makes_system_call(drcontext, dr_fragment_app_pc(tag));
}

/* DynamoRIO ends a trace where another starts, and with irregular branches one starts at each of
 * their targets: traces of a single block, which save nothing. A trace therefore continues past
 * others and around its own loop until it is long enough to pay off. Longer ones cost more to build
 * (and python3 with numpy builds thousands) than they save. */
dr_custom_trace_action_t extend_trace(void *drcontext, void *tag, void *next_tag) {
  enum { WORTH_IT = 4 };
  /* What begins with a comparison may leave, and a trace counts what leaves at its exits only. */
  if (shared_code_has(dr_fragment_app_pc(next_tag))) return CUSTOM_TRACE_END_NOW;
  bool is_short = thread_extends_trace(drcontext, tag) < WORTH_IT;
  return is_short && !image_never_counts(dr_fragment_app_pc(tag)) &&
                 can_continue_past(drcontext, next_tag)
             ? CUSTOM_TRACE_CONTINUE
             : CUSTOM_TRACE_DR_DECIDES;
}
