/* SPDX-License-Identifier: Apache-2.0 */
/* The code that counts:
 *
 *   register = word of the thread;  register->count[cell] += 1;  register->dirty[cell / GROUP] = 1
 *
 * with a register and flags that are dead there, if that is known. Encoded here: DynamoRIO's
 * encoder, which handles all instructions, took a quarter of the start-up time of programs. */
#include <string.h>

#include "client.h"

/* ---- encodings ------------------------------------------------------------------------------- */

/* Without an opcode, which DynamoRIO passes over. */
instr_t *raw_instruction(void *drcontext, const byte *bytes, unsigned n) {
  instr_t *i = instr_build_bits(drcontext, OP_UNDECODED, n);
  instr_set_raw_bytes(i, (byte *)(uintptr_t)bytes, n);
  return i;
}

static void insert_bytes(void *drcontext, instrlist_t *code, instr_t *where, const byte *bytes,
                         unsigned n) {
  instrlist_meta_preinsert(code, where, raw_instruction(drcontext, bytes, n));
}

/* DynamoRIO also translates the state of other threads (at a fork, for example): it decodes with
 * memory of the calling thread and frees it to the other's. */
void decode_raw(void *drcontext, instrlist_t *code) {
  for (instr_t *i = instrlist_first(code); i; i = instr_get_next(i)) {
    if (instr_opcode_valid(i) || !instr_raw_bits_valid(i)) continue;
    instr_reuse(drcontext, i);
    decode(drcontext, instr_get_raw_bits(i), i);
  }
}

static unsigned number_of(reg_id_t r) { return r - DR_REG_RAX; }

enum { ADD = 0x83, LOAD = 0x8b, STORE = 0x89, LEA = 0x8d, STORE_BYTE = 0xc6, TEST = 0xf7 };
enum { NO_CONSTANT = -1 };

/* opcode [base + at], with a register or an opcode extension, or a trailing constant: a byte, and
 * four for TEST. */
static void insert_based(void *drcontext, instrlist_t *code, instr_t *where, byte opcode,
                         unsigned reg, reg_id_t base, int at, int constant) {
  unsigned b = number_of(base), n = 0;
  byte bytes[MAX_INSTR_LENGTH];
  bytes[n++] = (byte)(0x48 | (reg >> 3) << 2 | b >> 3);
  bytes[n++] = opcode;
  bytes[n++] = (byte)(0x80 | (reg & 7) << 3 | (b & 7));
  if ((b & 7) == 4) bytes[n++] = 0x24;
  memcpy(bytes + n, &at, sizeof at);
  n += sizeof at;
  if (opcode == TEST) {
    memcpy(bytes + n, &constant, sizeof constant);
    n += sizeof constant;
  } else if (constant != NO_CONSTANT) {
    bytes[n++] = (byte)constant;
  }
  insert_bytes(drcontext, code, where, bytes, n);
}

void insert_segment_move(void *drcontext, instrlist_t *code, instr_t *where, bool store,
                         reg_id_t reg, reg_id_t segment, uint32_t at) {
  unsigned r = number_of(reg), n = 0;
  byte bytes[MAX_INSTR_LENGTH];
  bytes[n++] = segment == DR_SEG_GS ? 0x65 : 0x64;
  bytes[n++] = (byte)(0x48 | (r >> 3) << 2);
  bytes[n++] = store ? STORE : LOAD;
  bytes[n++] = (byte)(0x04 | (r & 7) << 3);
  bytes[n++] = 0x25;
  memcpy(bytes + n, &at, sizeof at);
  insert_bytes(drcontext, code, where, bytes, n + sizeof at);
}

void insert_store(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, size_t at,
                  reg_id_t from) {
  const opnd_t to = opnd_create_base_disp(base, DR_REG_NULL, 0, (int)at, OPSZ_8);
  instrlist_meta_preinsert(code, where, INSTR_CREATE_mov_st(drcontext, to, opnd_create_reg(from)));
}

void insert_address(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t to,
                    const void *address) {
  instrlist_meta_preinsert(
      code, where,
      INSTR_CREATE_mov_imm(drcontext, opnd_create_reg(to), OPND_CREATE_INTPTR((ptr_int_t)address)));
}

/* ---- registers ------------------------------------------------------------------------------- */

static int spilled_at[2];

static void spill(void *drcontext, instrlist_t *code, instr_t *where, bool save, reg_id_t reg,
                  dr_spill_slot_t slot) {
  opnd_t kept = dr_reg_spill_slot_opnd(drcontext, slot);
  spilled_at[slot - SPILL_SLOT_1] = opnd_get_disp(kept);
  insert_segment_move(drcontext, code, where, save, reg, opnd_get_segment(kept),
                      (uint32_t)opnd_get_disp(kept));
}

/* A register for use before `where`: a dead one, or else one that the next instruction does not
 * wait for. `taken` are unavailable. Neighbouring blocks save different ones: to save a register
 * waits until the last block has restored it, and a loop would wait for all of its blocks. */
scratch take_register(void *drcontext, instrlist_t *code, instr_t *where, live_set live,
                      uint32_t taken, dr_spill_slot_t slot) {
  scratch s = {DR_REG_NULL, true, slot};
  taken |= LIVE_REGISTER(DR_REG_RSP);
  for (reg_id_t r = DR_REG_RAX; r <= DR_REG_R15; r++)
    if (!((live.registers | taken) & LIVE_REGISTER(r))) {
      s.reg = r;
      return s;
    }
  instr_t *app = !where || instr_is_app(where) ? where : instr_get_next_app(where);
  unsigned first = app ? (unsigned)((uint64_t)instr_get_app_pc(app) >> 2) % 4 : 0;
  for (unsigned n = 0; n < 16; n++) {
    reg_id_t r = DR_REG_RAX + (15 - first - n) % 16;
    if (taken & LIVE_REGISTER(r)) continue;
    s.reg = r;
    if (!where || !instr_uses_reg(where, r)) break;
  }
  s.is_free = false;
  spill(drcontext, code, where, true, s.reg, slot);
  return s;
}

void give_register_back(void *drcontext, instrlist_t *code, instr_t *where, scratch s) {
  if (!s.is_free) spill(drcontext, code, where, false, s.reg, s.slot);
}

/* ---- counting -------------------------------------------------------------------------------- */

void insert_mark(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, uint32_t cell) {
  insert_based(drcontext, code, where, STORE_BYTE, 0, base, (int)(MARKS_OFFSET + cell / GROUP), 1);
}

void insert_add(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, uint32_t cell,
                reg_id_t value, reg_id_t amount) {
  int at = (int)(8 * cell);
  insert_based(drcontext, code, where, LOAD, number_of(value), base, at, NO_CONSTANT);
  if (amount)
    instrlist_meta_preinsert(
        code, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(value),
                         opnd_create_base_disp(value, amount, 1, 0, OPSZ_lea)));
  else
    insert_based(drcontext, code, where, LEA, number_of(value), value, 1, NO_CONSTANT);
  insert_based(drcontext, code, where, STORE, number_of(value), base, at, NO_CONSTANT);
}

void insert_count(void *drcontext, instrlist_t *code, instr_t *where, live_set live, uint32_t cell,
                  bool mark, bool waits) {
  enum { PERIOD = 4096 };
  scratch base = take_register(drcontext, code, where, live, 0, SPILL_SLOT_1);
  waits = waits && !live.flags;
  if (!live.flags) {
    thread_insert_base(drcontext, code, where, base.reg);
    insert_based(drcontext, code, where, ADD, 0, base.reg, (int)(8 * cell), 1);
    if (waits) insert_based(drcontext, code, where, TEST, 0, base.reg, (int)(8 * cell), PERIOD - 1);
  } else {
    scratch value =
        take_register(drcontext, code, where, live, LIVE_REGISTER(base.reg), SPILL_SLOT_2);
    thread_insert_base(drcontext, code, where, base.reg);
    insert_add(drcontext, code, where, base.reg, cell, value.reg, DR_REG_NULL);
    give_register_back(drcontext, code, where, value);
  }
  if (mark) insert_mark(drcontext, code, where, base.reg, cell);
  give_register_back(drcontext, code, where, base);
  if (waits) insert_release_if_zero(drcontext, code, where);
}

/* Sets the flags so that a branch is taken; `reg` holds a user-space address and is clobbered. */
static void insert_taken(void *drcontext, instrlist_t *code, instr_t *where, int branch,
                         reg_id_t reg) {
  byte r = (byte)(number_of(reg) & 7), high = number_of(reg) > 7;
  byte test[] = {(byte)(0x48 | 5 * high), 0x85, (byte)(0xc0 | r << 3 | r)};
  byte clear[] = {(byte)(0x48 | 5 * high), 0x31, (byte)(0xc0 | r << 3 | r)};
  byte negate[] = {(byte)(0x48 | high), 0xf7, (byte)(0xd8 | r)};
  switch (branch) {
    case OP_jno:
    case OP_jnb:
    case OP_jnz:
    case OP_jnbe:
    case OP_jns:
    case OP_jnl:
    case OP_jnle:
      insert_bytes(drcontext, code, where, test, sizeof test);
      break;
    case OP_jz:
    case OP_jbe:
    case OP_jp:
    case OP_jle:
      insert_bytes(drcontext, code, where, clear, sizeof clear);
      break;
    default: /* jb, js, jl */
      insert_bytes(drcontext, code, where, negate, sizeof negate);
  }
}

static bool has_free_register(live_set live) {
  return (live.registers | LIVE_REGISTER(DR_REG_RSP)) != 0xffff;
}

void insert_count_taken(void *drcontext, instrlist_t *code, instr_t *where, live_set live,
                        uint32_t cell, int branch) {
  if (live.flags || !has_free_register(live) || branch == OP_jo || branch == OP_jnp) {
    live.flags = EFLAGS_WRITE_6; /* the branch reads them */
    insert_count(drcontext, code, where, live, cell, true, false);
    return;
  }
  scratch base = take_register(drcontext, code, where, live, 0, SPILL_SLOT_1);
  thread_insert_base(drcontext, code, where, base.reg);
  insert_based(drcontext, code, where, ADD, 0, base.reg, (int)(8 * cell), 1);
  insert_mark(drcontext, code, where, base.reg, cell);
  insert_taken(drcontext, code, where, branch, base.reg);
}

/* ---- the code as it is executed ---------------------------------------------------------------
 */

typedef enum part { ELSE, BEGINS, GOES_ON_COUNTING } part;

static int number_at(const byte *pc) {
  int number;
  memcpy(&number, pc, sizeof number);
  return number;
}

/* Of insert_segment_move(). */
static part part_of_move(const byte *pc) {
  if ((pc[0] & 0xfe) != 0x64 || (pc[1] & 0xfb) != 0x48 || (pc[3] & 0xc7) != 0x04 || pc[4] != 0x25)
    return ELSE;
  const int at = number_at(pc + 5);
  if (pc[2] == LOAD && at == thread_base_at()) return BEGINS;
  if (at != spilled_at[0] && at != spilled_at[1]) return ELSE;
  return pc[2] == STORE ? BEGINS : pc[2] == LOAD ? GOES_ON_COUNTING : ELSE;
}

/* Of insert_based(), as far as it counts or marks; the program's may look like it. */
static part part_of_access(const byte *pc) {
  enum { MARKS_END = MARKS_OFFSET + CELLS / GROUP };
  if ((pc[0] & 0xfa) != 0x48 || (pc[2] & 0xc0) != 0x80) return ELSE;
  const byte *after = pc + ((pc[2] & 7) == 4 ? 4 : 3);
  const int at = number_at(after), constant = after[4];
  const bool is_cell = at >= 0 && at < 8 * CELLS && at % 8 == 0;
  if (pc[1] == ADD && !(pc[2] & 0x38) && is_cell && constant == 1) return GOES_ON_COUNTING;
  if (pc[1] == STORE && is_cell) return GOES_ON_COUNTING;
  if (pc[1] == STORE_BYTE && at >= MARKS_OFFSET && at < MARKS_END && constant == 1)
    return GOES_ON_COUNTING;
  return ELSE;
}

static bool is_near_branch(const byte *pc) { return pc[0] == 0x0f && (pc[1] & 0xf0) == 0x80; }

static bool jumps(const byte *pc) {
  while (pc[0] == 0x66 || pc[0] == 0xf2 || pc[0] == 0xf3 || (pc[0] & 0xf0) == 0x40) pc++;
  return (pc[0] & 0xf0) == 0x70 || (pc[0] & 0xfc) == 0xe0 || (pc[0] & 0xfc) == 0xe8 ||
         (pc[0] & 0xfe) == 0xc2 || pc[0] == 0xff || is_near_branch(pc);
}

/* The branch around the count of a way out of a trace. */
static bool is_around_count(const byte *pc) {
  enum { LENGTH = 6 };
  return is_near_branch(pc) && part_of_move(pc + LENGTH) == BEGINS;
}

bool counting_is_under_way(const byte *pc) {
  enum { FAR = 8 };
  void *drcontext = dr_get_current_drcontext();
  if (trace_has_marker(pc) || is_around_count(pc)) return true;
  for (int n = 0; drcontext && n < FAR && !jumps(pc); n++) {
    part is = part_of_move(pc);
    if (!is) is = part_of_access(pc);
    if (is) return is == GOES_ON_COUNTING || n == 0;
    const int size = decode_sizeof(drcontext, (byte *)(uintptr_t)pc, NULL, NULL);
    if (!size) break;
    pc += size;
  }
  return false;
}
