/* The code that counts:
 *
 *   register = word of the thread;  register->count[cell] += 1;  register->dirty[cell / GROUP] = 1
 *
 * with a register and flags that the program does not need there, if that can be seen. */
#include "client.h"

/* ---- registers ------------------------------------------------------------------------------- */

/* A register for use in front of `where`: one of those that the program does not need there, or
 * else one that the next instruction does not wait for. `taken` are not to be had. */
scratch take_register(void *drcontext, instrlist_t *code, instr_t *where, live_set live,
                      uint32_t taken, dr_spill_slot_t slot) {
  scratch s = {DR_REG_NULL, true, slot};
  taken |= LIVE_REGISTER(DR_REG_RSP);
  for (reg_id_t r = DR_REG_RAX; r <= DR_REG_R15; r++)
    if (!((live.registers | taken) & LIVE_REGISTER(r))) {
      s.reg = r;
      return s;
    }
  for (reg_id_t r = DR_REG_R15; r >= DR_REG_RAX; r--)
    if (!(taken & LIVE_REGISTER(r))) {
      s.reg = r;
      if (!where || !instr_uses_reg(where, r)) break;
    }
  s.is_free = false;
  dr_save_reg(drcontext, code, where, s.reg, slot);
  return s;
}

void give_register_back(void *drcontext, instrlist_t *code, instr_t *where, scratch s) {
  if (!s.is_free) dr_restore_reg(drcontext, code, where, s.reg, s.slot);
}

/* ---- counting -------------------------------------------------------------------------------- */

static opnd_t operand_of(reg_id_t base, uint32_t cell) {
  return OPND_CREATE_MEM64(base, (int)(8 * cell));
}

uint32_t counted_cell(opnd_t operand) {
  int64_t at = opnd_is_base_disp(operand) ? opnd_get_disp(operand) : -1;
  return at >= 0 && at < MARKS_OFFSET ? (uint32_t)(at / 8) : NO_CELL;
}

void insert_mark(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, uint32_t cell) {
  opnd_t mark = OPND_CREATE_MEM8(base, (int)(MARKS_OFFSET + cell / GROUP));
  instrlist_meta_preinsert(code, where, INSTR_CREATE_mov_st(drcontext, mark, OPND_CREATE_INT8(1)));
}

void insert_add(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, uint32_t cell,
                reg_id_t value, reg_id_t amount) {
  opnd_t sum = opnd_create_base_disp(value, amount, amount ? 1 : 0, amount ? 0 : 1, OPSZ_lea);
  opnd_t to = opnd_create_reg(value), count = operand_of(base, cell);
  instrlist_meta_preinsert(code, where, INSTR_CREATE_mov_ld(drcontext, to, count));
  instrlist_meta_preinsert(code, where, INSTR_CREATE_lea(drcontext, to, sum));
  instrlist_meta_preinsert(code, where, INSTR_CREATE_mov_st(drcontext, count, to));
}

void insert_count(void *drcontext, instrlist_t *code, instr_t *where, live_set live, uint32_t cell,
                  bool mark) {
  scratch base = take_register(drcontext, code, where, live, 0, SPILL_SLOT_1);
  if (!live.flags) {
    opnd_t count = operand_of(base.reg, cell);
    thread_insert_base(drcontext, code, where, base.reg);
    instrlist_meta_preinsert(code, where, INSTR_CREATE_add(drcontext, count, OPND_CREATE_INT8(1)));
  } else {
    scratch value =
        take_register(drcontext, code, where, live, LIVE_REGISTER(base.reg), SPILL_SLOT_2);
    thread_insert_base(drcontext, code, where, base.reg);
    insert_add(drcontext, code, where, base.reg, cell, value.reg, DR_REG_NULL);
    give_register_back(drcontext, code, where, value);
  }
  if (mark) insert_mark(drcontext, code, where, base.reg, cell);
  give_register_back(drcontext, code, where, base);
}
