/* SPDX-License-Identifier: Apache-2.0 */
/* A call's return address, pushed in one store.
 *
 * DynamoRIO pushes the address in two stores of four bytes. The return then loads eight, and must
 * wait until both have left the processor's store buffer: ten nanoseconds, which a loop with a call
 * pays in full. Here the address is pushed from memory. */
#include "client.h"

enum { CHUNK = 4096 / sizeof(uint64_t) };

/* Addresses to push, each stored once; the table finds them. Built code points to them, so none is
 * ever freed. */
static uint64_t *chunk; /* the last one, within reach of built code */
static size_t in_chunk, n_known, table_room;
static uint64_t **table; /* open addressing */

static size_t place_of(uint64_t address) {
  size_t at = (size_t)((address * 0x9e3779b97f4a7c15ull) >> 32) & (table_room - 1);
  while (table[at] && *table[at] != address) at = (at + 1) & (table_room - 1);
  return at;
}

static void make_room(void) {
  uint64_t **old = table;
  size_t old_room = table_room;
  if (2 * n_known < table_room) return;
  table_room = 0;
  table = grown(NULL, &table_room, 2 * old_room + 1, sizeof *table);
  for (size_t i = 0; i < old_room; i++)
    if (old[i]) table[place_of(*old[i])] = old[i];
  if (old) engine_free(old, old_room * sizeof *old);
}

/* NULL: no memory in reach. */
static uint64_t *kept_address(uint64_t address) {
  make_room();
  uint64_t **at = &table[place_of(address)];
  if (*at) return *at;
  if (!chunk || in_chunk == CHUNK) {
    chunk = dr_custom_alloc(NULL, DR_ALLOC_NON_HEAP | DR_ALLOC_CACHE_REACHABLE,
                            CHUNK * sizeof *chunk, DR_MEMPROT_READ | DR_MEMPROT_WRITE, NULL);
    in_chunk = 0;
  }
  if (!chunk) return NULL;
  *at = &chunk[in_chunk++];
  **at = address;
  n_known++;
  return *at;
}

/* The target of a call, for use once the address is on the stack. NULL if it is read from memory,
 * which may fault and must then find the stack unchanged, or from the stack pointer. */
static instr_t *jump_of(void *drcontext, instr_t *call) {
  opnd_t target = instr_get_target(call);
  if (instr_get_opcode(call) == OP_call)
    return INSTR_CREATE_jmp(drcontext, opnd_create_pc(opnd_get_pc(target)));
  if (instr_get_opcode(call) == OP_call_ind && opnd_is_reg(target) &&
      opnd_get_reg(target) != DR_REG_RSP)
    return INSTR_CREATE_jmp_ind(drcontext, target);
  return NULL;
}

void split_call(void *drcontext, instrlist_t *code) {
  instr_t *call = instrlist_last_app(code);
  if (!call || !instr_is_call(call)) return;
  app_pc at = instr_get_app_pc(call);
  uint64_t behind = (uint64_t)at + (uint64_t)instr_length(drcontext, call), *kept;
  if ((uint64_t)(int32_t)behind == behind) return; /* one store suffices */
  instr_t *jump = jump_of(drcontext, call);
  if (!jump) return;
  lock();
  kept = kept_address(behind);
  unlock();
  if (!kept) {
    instr_destroy(drcontext, jump);
    return;
  }
  instr_t *push = INSTR_CREATE_push(drcontext, opnd_create_rel_addr(kept, OPSZ_8));
  instrlist_preinsert(code, call, INSTR_XL8(push, at));
  instrlist_replace(code, call, INSTR_XL8(jump, at));
  instr_destroy(drcontext, call);
}
