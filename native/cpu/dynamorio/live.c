/* SPDX-License-Identifier: Apache-2.0 */
/* Which registers and flags the program may still read: counting uses the others without saving
 * them. Paths that cannot be followed are assumed to read everything, as is code beyond the
 * fragment that comes from no file: it may change unnoticed. */
#include "client.h"

enum { MAX_STARTS = 32 };

typedef struct start {
  app_pc pc;
  live_set open; /* not yet decided */
} start;

typedef struct search {
  live_set live;
  start starts[MAX_STARTS]; /* of paths already followed or being followed */
  int n_starts;
  int left;     /* instructions that may still be examined */
  bool in_file; /* not generated */
} search;

static search new_search(app_pc pc, int look_ahead) {
  lock();
  search s = {.left = look_ahead, .in_file = image_holds(pc)};
  unlock();
  if (!s.in_file) s.left = 0;
  return s;
}

static void need(search *s, live_set open) {
  s->live.registers |= open.registers;
  s->live.flags |= open.flags;
}

static uint32_t bit(reg_id_t r) {
  if (!reg_is_gpr(r)) return 0;
  return LIVE_REGISTER(reg_to_pointer_sized(r));
}

static uint32_t registers_in(opnd_t o) {
  uint32_t set = 0;
  for (int i = 0, n = opnd_num_regs_used(o); i < n; i++) set |= bit(opnd_get_reg_used(o, i));
  return set;
}

/* Clearing a register with itself reads nothing. */
static bool is_clearing(instr_t *i) {
  return instr_get_opcode(i) == OP_xor && opnd_is_reg(instr_get_src(i, 0)) &&
         opnd_same(instr_get_src(i, 0), instr_get_src(i, 1));
}

static uint32_t registers_read(instr_t *i) {
  uint32_t set = 0;
  for (int s = 0, n = instr_num_srcs(i); s < n && !is_clearing(i); s++)
    set |= registers_in(instr_get_src(i, s));
  for (int d = 0, n = instr_num_dsts(i); d < n; d++)
    if (!opnd_is_reg(instr_get_dst(i, d))) set |= registers_in(instr_get_dst(i, d));
  return set;
}

/* Complete writes only: nothing of the old value remains. */
static uint32_t registers_written(instr_t *i) {
  uint32_t set = 0;
  int opcode = instr_get_opcode(i);
  if (instr_is_predicated(i) || opcode == OP_lar || opcode == OP_lsl || opcode == OP_xabort)
    return 0;
  for (int d = 0, n = instr_num_dsts(i); d < n; d++) {
    opnd_t o = instr_get_dst(i, d);
    if (opnd_is_reg(o) && (reg_is_64bit(opnd_get_reg(o)) || reg_is_32bit(opnd_get_reg(o))))
      set |= bit(opnd_get_reg(o));
  }
  return set;
}

bool can_fault(instr_t *i) {
  if (instr_reads_memory(i) || instr_writes_memory(i)) return true;
  switch (instr_get_opcode(i)) {
    case OP_mov_ld:
    case OP_mov_st:
    case OP_mov_imm:
    case OP_movzx:
    case OP_movsx:
    case OP_movsxd:
    case OP_lea:
    case OP_add:
    case OP_adc:
    case OP_sub:
    case OP_sbb:
    case OP_and:
    case OP_or:
    case OP_xor:
    case OP_cmp:
    case OP_test:
    case OP_inc:
    case OP_dec:
    case OP_neg:
    case OP_not:
    case OP_mul:
    case OP_imul:
    case OP_shl:
    case OP_shr:
    case OP_sar:
    case OP_nop:
    case OP_nop_modrm:
      return false;
    default:
      return !instr_is_cbr(i) && !instr_is_ubr(i);
  }
}

/* DynamoRIO takes cmc for an instruction that reads nothing. */
static uint32_t flags_read(instr_t *i) {
  if (instr_get_opcode(i) == OP_cmc) return EFLAGS_WRITE_CF;
  return EFLAGS_READ_TO_WRITE(instr_get_eflags(i, DR_QUERY_DEFAULT) & EFLAGS_READ_6);
}

static bool shifts_by(instr_t *i, opnd_t *count) {
  switch (instr_get_opcode(i)) {
    case OP_rol:
    case OP_ror:
    case OP_rcl:
    case OP_rcr:
    case OP_shl:
    case OP_shr:
    case OP_sar:
    case OP_shld:
    case OP_shrd:
      *count = instr_get_src(i, instr_get_opcode(i) == OP_shld || instr_get_opcode(i) == OP_shrd);
      return true;
    default:
      return false;
  }
}

/* As registers_written(). DynamoRIO counts flags that an instruction leaves undefined, which is
 * right, but also some that it may leave as they are. */
static uint32_t flags_written(instr_t *i) {
  opnd_t count;
  uint32_t written = instr_get_eflags(i, DR_QUERY_DEFAULT) & EFLAGS_WRITE_6;
  if (shifts_by(i, &count))
    return opnd_is_immed_int(count) && opnd_get_immed_int(count) & 31 ? written : 0;
  switch (instr_get_opcode(i)) {
    case OP_bt:
    case OP_bts:
    case OP_btr:
    case OP_btc:
      return written & ~(uint32_t)EFLAGS_WRITE_ZF;
    default:
      return written;
  }
}

/* The registers read after a fault's handler: a landing pad reads those that a call preserves;
 * generated code (which detects null pointers this way) reads all. */
static live_set after_fault(const search *s) {
  static const uint32_t preserved = LIVE_REGISTER(DR_REG_RBX) | LIVE_REGISTER(DR_REG_RBP) |
                                    LIVE_REGISTER(DR_REG_R12) | LIVE_REGISTER(DR_REG_R13) |
                                    LIVE_REGISTER(DR_REG_R14) | LIVE_REGISTER(DR_REG_R15);
  return s->in_file ? (live_set){preserved, 0} : (live_set){0xffff, EFLAGS_WRITE_6};
}

/* Lets the instruction decide part of `open`, which no instruction has decided yet. */
static void decide(search *s, instr_t *i, live_set *open) {
  live_set seen = can_fault(i) ? after_fault(s) : (live_set){0, 0}, *live = &s->live;
  live->registers |= open->registers & seen.registers;
  live->flags |= open->flags & seen.flags;
  open->registers &= ~seen.registers;
  open->flags &= ~seen.flags;
  uint32_t read = registers_read(i), flags = flags_read(i);
  live->registers |= open->registers & read;
  live->flags |= open->flags & flags;
  open->registers &= ~(read | registers_written(i));
  open->flags &= ~(flags | flags_written(i));
}

static bool is_decided(const live_set *open) { return !open->registers && !open->flags; }

/* What counting needs is known: whether the flags are free, and a free register, or two. */
static bool is_enough(const search *s, const live_set *open) {
  uint32_t free = 0xffff & ~(s->live.registers | open->registers | LIVE_REGISTER(DR_REG_RSP));
  if (is_decided(open)) return true;
  return s->live.flags ? (free & (free - 1)) != 0 : !open->flags && free;
}

bool decode_at(void *drcontext, app_pc pc, instr_t *i) {
  byte bytes[MAX_INSTR_LENGTH + 1] = {0};
  size_t got = 0;
  dr_safe_read(pc, MAX_INSTR_LENGTH, bytes, &got); /* a page may end after the instruction */
  instr_reset(drcontext, i);
  byte *end = got ? decode_from_copy(drcontext, bytes, pc, i) : NULL;
  return end && (size_t)(end - bytes) <= got;
}

/* True when this path adds nothing to one already followed or being followed. */
static bool was_followed(const search *s, app_pc pc, const live_set *open) {
  for (int i = 0; i < s->n_starts; i++)
    if (s->starts[i].pc == pc && !(open->registers & ~s->starts[i].open.registers) &&
        !(open->flags & ~s->starts[i].open.flags))
      return true;
  return false;
}

static void follow(void *drcontext, search *s, app_pc pc, live_set open);

/* After instruction `i`; `open` is decided on every path that control may take. */
static void go_on(void *drcontext, search *s, instr_t *i, app_pc behind, live_set open) {
  if (instr_is_cbr(i)) follow(drcontext, s, instr_get_branch_target_pc(i), open);
  if (instr_is_cbr(i) || !(instr_is_cti(i) || instr_is_syscall(i)))
    follow(drcontext, s, behind, open);
  else if (instr_is_ubr(i) || instr_is_call_direct(i))
    follow(drcontext, s, instr_get_branch_target_pc(i), open);
  else
    need(s, open);
}

static void follow(void *drcontext, search *s, app_pc pc, live_set open) {
  instr_t i;
  bool went_on = false;
  if (was_followed(s, pc, &open)) return;
  if (s->n_starts == MAX_STARTS) {
    need(s, open);
    return;
  }
  s->starts[s->n_starts++] = (start){pc, open};
  instr_init(drcontext, &i);
  while (!is_decided(&open) && s->left-- > 0 && decode_at(drcontext, pc, &i)) {
    decide(s, &i, &open);
    pc += instr_length(drcontext, &i);
    went_on = instr_is_cti(&i) || instr_is_syscall(&i);
    if (went_on) break;
  }
  if (went_on)
    go_on(drcontext, s, &i, pc, open);
  else
    need(s, open);
  instr_free(drcontext, &i);
}

app_pc way_out(void *drcontext, instr_t *branch, instr_t *next) {
  app_pc target = instr_get_branch_target_pc(branch);
  if (instr_get_app_pc(next) != target) return target;
  return decode_next_pc(drcontext, instr_get_app_pc(branch));
}

live_set live_from(void *drcontext, app_pc pc, int look_ahead) {
  search s = new_search(pc, look_ahead);
  follow(drcontext, &s, pc, (live_set){0xffff, EFLAGS_WRITE_6});
  return s.live;
}

/* Control from here is known only within the fragment. */
static bool is_opaque(instr_t *i) { return instr_is_mbr(i) || instr_is_syscall(i); }

live_set live_at(void *drcontext, instr_t *from, int look_ahead) {
  instr_t *first = instr_is_app(from) ? from : instr_get_next_app(from);
  search s = new_search(instr_get_app_pc(first), look_ahead);
  live_set open = {0xffff, EFLAGS_WRITE_6};
  instr_t *last = NULL, *next;
  for (instr_t *i = first; i; i = next) {
    next = instr_get_next_app(i);
    decide(&s, i, &open);
    last = i;
    if (is_enough(&s, &open) || is_opaque(i)) break;
    if (next && instr_is_cbr(i)) follow(drcontext, &s, way_out(drcontext, i, next), open);
  }
  if (is_decided(&open)) return s.live;
  if (is_enough(&s, &open)) {
    need(&s, open);
    return s.live;
  }
  if (s.left > 0 && last)
    go_on(drcontext, &s, last, decode_next_pc(drcontext, instr_get_app_pc(last)), open);
  else
    need(&s, open);
  return s.live;
}
