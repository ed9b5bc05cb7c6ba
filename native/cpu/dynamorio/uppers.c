/* SPDX-License-Identifier: Apache-2.0 */
/* Upper halves of vector registers. DynamoRIO loads all vector registers in full when it enters its
 * code cache. If a switch of threads follows, the processor takes the upper halves for used even
 * if they are zero, and each SSE instruction waits for the last writer of its result's register,
 * to merge them: a loop of SSE arithmetic takes up to seven times as long, until it leaves the
 * code cache. Compilers avoid this by `vzeroupper` after AVX code.
 *
 * So blocks with such arithmetic look once in PERIOD executions. If all upper halves are zero,
 * `vzeroupper` changes no register, and the processor knows. */
#include <cpuid.h>

#include "client.h"

enum { REGISTERS = 16, WORDS = 8, LOWER = 2, OF_AVX = 4 };

/* Words of a register that the system keeps; 0: without AVX. */
static unsigned words;

void uppers_init(void) {
  enum { OSXSAVE = 1 << 27, YMM_STATE = 6, ZMM_STATE = 0xe6 };
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return;
  __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  words = (a & ZMM_STATE) == ZMM_STATE ? WORDS : (a & YMM_STATE) == YMM_STATE ? OF_AVX : 0;
}

bool waits_for_uppers(instr_t *i) {
  if (!words) return false;
  switch (instr_get_opcode(i)) {
    case OP_addps:
    case OP_addpd:
    case OP_addss:
    case OP_addsd:
    case OP_subps:
    case OP_subpd:
    case OP_subss:
    case OP_subsd:
    case OP_mulps:
    case OP_mulpd:
    case OP_mulss:
    case OP_mulsd:
    case OP_divps:
    case OP_divpd:
    case OP_divss:
    case OP_divsd:
    case OP_sqrtps:
    case OP_sqrtpd:
    case OP_sqrtss:
    case OP_sqrtsd:
    case OP_cvtsi2ss:
    case OP_cvtsi2sd:
    case OP_cvtss2sd:
    case OP_cvtsd2ss:
      return true;
    default:
      return false;
  }
}

#define STORE(file, r, at) "vmovups %%" file #r ", 64*" #r "(" at ")\n"
#define STORE_ALL(file, at) \
  STORE(file, 0, at)        \
  STORE(file, 1, at)        \
  STORE(file, 2, at)        \
  STORE(file, 3, at)        \
  STORE(file, 4, at)        \
  STORE(file, 5, at)        \
  STORE(file, 6, at)        \
  STORE(file, 7, at)        \
  STORE(file, 8, at)        \
  STORE(file, 9, at)        \
  STORE(file, 10, at)       \
  STORE(file, 11, at)       \
  STORE(file, 12, at)       \
  STORE(file, 13, at)       \
  STORE(file, 14, at) STORE(file, 15, at)

/* Keeps what the upper halves hold, all bits together. The program's registers are still in place:
 * the compiler must not use them. */
__attribute__((target("general-regs-only"))) static void keep_uppers(void) {
  uint64_t all[REGISTERS][WORDS], used = 0;
  if (words == WORDS)
    __asm__ volatile(STORE_ALL("zmm", "%0") : : "r"(all) : "memory");
  else
    __asm__ volatile(STORE_ALL("ymm", "%0") : : "r"(all) : "memory");
  for (unsigned r = 0; r < REGISTERS; r++)
    for (unsigned w = LOWER; w < words; w++) used |= all[r][w];
  thread_keep(used);
}

void insert_release_if_zero(void *drcontext, instrlist_t *code, instr_t *where) {
  static const byte vzeroupper[] = {0xc5, 0xf8, 0x77};
  instr_t *on = INSTR_CREATE_label(drcontext);
  opnd_t out = opnd_create_instr(on);
  instrlist_meta_preinsert(code, where, INSTR_CREATE_jcc(drcontext, OP_jnz, out));
  dr_insert_clean_call_ex(drcontext, code, where, (void *)keep_uppers, DR_CLEANCALL_NOSAVE_FLAGS,
                          0);
  thread_insert_compare_kept(drcontext, code, where);
  instrlist_meta_preinsert(code, where, INSTR_CREATE_jcc(drcontext, OP_jnz, out));
  /* Here, since DynamoRIO loads all registers in full again after the call. */
  instrlist_meta_preinsert(code, where, raw_instruction(drcontext, vzeroupper, sizeof vzeroupper));
  instrlist_meta_preinsert(code, where, on);
}
