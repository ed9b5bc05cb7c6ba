/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a device that is this processor run outside DynamoRIO (docs/dynamorio.md, "Kernels").
 * The block at a kernel's entry jumps to us, and we call the kernel, on the program's stack and
 * with its registers. A signal or fault in the kernel takes the thread back to the block, and the
 * kernel goes on from there under DynamoRIO. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "client.h"
#include "system_call.h"

/* Where a signal came. */
typedef enum moment { BEFORE, WITHIN, AFTER } moment;

/* A thread's call. The assembly knows the fields up to `moment`. */
struct kernel_call {
  uint64_t stack, back; /* where the program's return address lies, and what it is */
  uint64_t fs, our_fs;
  uint64_t resume;         /* where the block goes on, with RAX telling whether a signal came */
  volatile bool active;    /* the kernel runs */
  volatile bool signalled; /* since the last time DynamoRIO's dispatcher was visited */
  uint8_t moment;
  uint64_t entry;
  thread_id_t thread;
  greg_t registers[SIGNAL_REGISTERS]; /* of the kernel, where it was interrupted */
};

typedef kernel_call call;

/* The offset of a thread's pointer to its call in its thread-local storage. */
static uint64_t word __attribute__((used));
static reg_id_t segment;
static bool possible;

/* R11 is the call, and R10 the kernel. All that a function may change is free here. A signal takes
 * the thread to kernel_leaves. */
extern const char kernel_enters[] __attribute__((visibility("hidden")));
extern const char kernel_is_known[] __attribute__((visibility("hidden")));
extern const char kernel_returns[] __attribute__((visibility("hidden")));
extern const char kernel_goes_back[] __attribute__((visibility("hidden")));
extern const char kernel_leaves[] __attribute__((visibility("hidden")));
/* Code that uses AVX-512. DynamoRIO ends the program if it lies where none may be executed. */
extern const char kernel_avx512[] __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".hidden kernel_enters, kernel_is_known, kernel_returns, kernel_goes_back\n"
    ".hidden kernel_leaves\n"
    "kernel_enters:\n"
    "  mov (%rsp), %rax\n"
    "  mov %rax, 8(%r11)\n"
    "  mov %rsp, 0(%r11)\n"
    "  rdfsbase %rax\n"
    "  mov %rax, 24(%r11)\n"
    "kernel_is_known:\n"
    "  movb $0, 42(%r11)\n" /* BEFORE */
    "  cmpb $0, 41(%r11)\n"
    "  jne kernel_leaves\n"
    "  mov 16(%r11), %rax\n"
    "  wrfsbase %rax\n"
    "  movb $1, 40(%r11)\n"
    "  add $8, %rsp\n"
    "  call *%r10\n" /* its return address takes the program's place */
    "kernel_returns:\n"
    "  mov word(%rip), %rax\n"
    "  mov %gs:(%rax), %r11\n"
    "  movb $0, 40(%r11)\n"
    "  movb $2, 42(%r11)\n" /* AFTER */
    "  cmpb $0, 41(%r11)\n"
    "  jne kernel_leaves\n"
    "  xor %eax, %eax\n"
    "kernel_goes_back:\n"
    "  mov 24(%r11), %r10\n"
    "  wrfsbase %r10\n"
    "  mov 0(%r11), %rsp\n"
    "  mov 8(%r11), %r10\n"
    "  mov %r10, (%rsp)\n"
    "  jmp *32(%r11)\n"
    "kernel_leaves:\n"
    "  mov $1, %eax\n"
    "  jmp kernel_goes_back\n"
    ".hidden kernel_avx512\n"
    "kernel_avx512:\n"
    "  vpxord %zmm0, %zmm0, %zmm0\n"
    "  ret\n");
_Static_assert(offsetof(call, fs) == 16 && offsetof(call, active) == 40 &&
                   offsetof(call, signalled) == 41 && offsetof(call, moment) == 42 && AFTER == 2,
               "the assembly has these");

/* ---- translation -------------------------------------------------------------------------------
 */
/* Threads that DynamoRIO does not know have no base, or that of the thread that started them. */
static call *current_call(void) {
  uint64_t base, c;
  if (!possible) return NULL;
  __asm__ volatile("rdgsbase %0" : "=r"(base));
  if (!base) return NULL;
  __asm__ volatile("mov %%gs:(%1), %0" : "=r"(c) : "r"(word));
  return (call *)c;
}

/* By way of DynamoRIO's dispatcher, which delivers the signals that have arrived. */
static void go_on_translated(void) {
  call *c = current_call();
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_ALL};
  dr_get_mcontext(dr_get_current_drcontext(), &context);
  c->signalled = false;
  if (c->moment == BEFORE) {
    context.pc = (app_pc)c->entry;
  } else if (c->moment == WITHIN) {
    signal_read_registers(&context, c->registers);
  } else {
    context.pc = (app_pc)c->back;
    context.xsp += sizeof c->back;
  }
  dr_redirect_execution(&context);
}

static bool has_avx512(void) {
  enum { ZMM = 6 };
  uint32_t has, high;
  __asm__ volatile("xgetbv" : "=a"(has), "=d"(high) : "c"(0));
  return has >> ZMM & 1;
}

/* Before DynamoRIO has seen code that uses AVX-512, it leaves those registers alone. */
void kernels_expected(void) {
  static bool shown;
  if (shown) return;
  shown = true;
  if (!possible || !has_avx512() || dr_mcontext_zmm_fields_valid()) return;
  void *drcontext = dr_get_current_drcontext();
  instrlist_clear_and_destroy(drcontext, decode_as_bb(drcontext, (byte *)(uintptr_t)kernel_avx512));
}

bool kernels_run_natively(void) {
  return possible && (!has_avx512() || dr_mcontext_zmm_fields_valid());
}

/* Puts a call of the kernel, and the return from it, in the place of the code. */
void kernel_insert(void *drcontext, app_pc start, instrlist_t *code) {
  signals_come_first();
  instrlist_clear(drcontext, code);
  instr_t *resume = INSTR_CREATE_label(drcontext), *done = INSTR_CREATE_label(drcontext);
  instr_t *back = INSTR_XL8(INSTR_CREATE_ret(drcontext), start);
  const opnd_t rax = opnd_create_reg(DR_REG_RAX), eax = opnd_create_reg(DR_REG_EAX);
  instrlist_append(code, back);
  dr_insert_read_raw_tls(drcontext, code, back, segment, (uint)word, DR_REG_R11);
  dr_insert_get_seg_base(drcontext, code, back, DR_SEG_FS, DR_REG_RAX);
  insert_store(drcontext, code, back, DR_REG_R11, offsetof(call, fs), DR_REG_RAX);
  instrlist_insert_mov_instr_addr(drcontext, resume, NULL, rax, code, back, NULL, NULL);
  insert_store(drcontext, code, back, DR_REG_R11, offsetof(call, resume), DR_REG_RAX);
  insert_address(drcontext, code, back, DR_REG_R10, start);
  insert_store(drcontext, code, back, DR_REG_R11, offsetof(call, entry), DR_REG_R10);
  insert_address(drcontext, code, back, DR_REG_RAX, kernel_enters);
  instrlist_meta_preinsert(code, back, INSTR_CREATE_jmp_ind(drcontext, rax));
  instrlist_meta_preinsert(code, back, resume);
  instrlist_meta_preinsert(code, back, INSTR_CREATE_test(drcontext, eax, eax));
  instrlist_meta_preinsert(code, back, INSTR_CREATE_jcc(drcontext, OP_jz, opnd_create_instr(done)));
  dr_insert_clean_call(drcontext, code, back, (void *)go_on_translated, false, 0);
  instrlist_meta_preinsert(code, back, done);
}

/* ---- signals -----------------------------------------------------------------------------------
 */
/* DynamoRIO's handler has been interrupted. */
static bool handles(const ucontext_t *context) {
  const uint64_t stack = (uint64_t)context->uc_stack.ss_sp;
  return (uint64_t)context->uc_mcontext.gregs[REG_RSP] - stack < context->uc_stack.ss_size;
}

static void enter(call *c, const greg_t *registers) {
  c->stack = (uint64_t)registers[REG_RSP];
  c->back = *(uint64_t *)c->stack;
  __asm__ volatile("rdfsbase %0" : "=r"(c->our_fs));
}

static void leave(call *c, greg_t *registers, moment when) {
  enum { DIRECTION = 0x400 };
  c->active = false;
  c->moment = (uint8_t)when;
  registers[REG_RIP] = (greg_t)kernel_leaves;
  registers[REG_R11] = (greg_t)c;
  registers[REG_EFL] &= ~(greg_t)DIRECTION;
}

bool kernel_interrupted(int number, const siginfo_t *info, ucontext_t *context) {
  greg_t *registers = context->uc_mcontext.gregs;
  const uint64_t pc = (uint64_t)registers[REG_RIP];
  const bool sent = info->si_code <= 0, fault = !sent && signal_is_of_code(number);
  call *c = current_call();
  if (!c || xp_system_call(SYS_gettid, 0, 0, 0, 0) != c->thread) return false;
  c->signalled = true;
  if (signal_came_between(pc, kernel_enters, kernel_returns)) {
    if (pc < (uint64_t)kernel_is_known) enter(c, registers);
    leave(c, registers, BEFORE);
  } else if (signal_came_between(pc, kernel_returns, kernel_goes_back)) {
    leave(c, registers, AFTER);
  } else if (signal_came_between(pc, kernel_goes_back, kernel_leaves)) {
    leave(c, registers, (moment)c->moment); /* perhaps for a second time */
  } else if (sent && (number == SIGSEGV || number == SIGBUS)) {
    return false; /* it waits for the kernel's end: DynamoRIO takes it for a fault of ours */
  } else if (c->active && !signal_came_between(pc, __ehdr_start, etext) && !handles(context)) {
    signal_keep_registers(c->registers, registers, info);
    leave(c, registers, WITHIN);
    return fault; /* the kernel will cause it again */
  }
  return false;
}

/* ---- life --------------------------------------------------------------------------------------
 */
/* Whether code may read and write the bases of FS and GS. */
static bool has_fsgsbase(void) {
  enum { FSGSBASE = 2, MAX_ENTRIES = 100 };
  static char *text;
  static size_t room;
  const unsigned long *entry = (const unsigned long *)file_text("/proc/self/auxv", &text, &room);
  for (int i = 0; i < MAX_ENTRIES && entry[0]; i++, entry += 2)
    if (entry[0] == AT_HWCAP2) return entry[1] & FSGSBASE;
  return false;
}

void kernels_init(void) {
  uint offset;
  possible = has_fsgsbase() && dr_raw_tls_calloc(&segment, &offset, 1, 0) && segment == DR_SEG_GS;
  word = offset;
}

bool kernels_are_possible(void) { return possible; }

static call **own_call(void) { return (call **)((byte *)dr_get_dr_segment_base(segment) + word); }

/* Also where a fork has left one. */
call *kernels_thread_starts(void *drcontext) {
  if (!possible) return NULL;
  call **at = own_call();
  if (!*at) *at = dr_global_alloc(sizeof **at);
  **at = (call){.thread = dr_get_thread_id(drcontext)};
  return *at;
}

/* Perhaps another one than the current thread. */
void kernels_thread_ends(void *drcontext, call *c) {
  if (!c) return;
  if (drcontext == dr_get_current_drcontext()) *own_call() = NULL;
  dr_global_free(c, sizeof *c);
}

/* In the block, behind the kernel, DynamoRIO would have the thread begin the kernel again. */
bool kernel_restores(const call *c, bool restore_memory, dr_restore_state_info_t *state) {
  if (!c || !state->fragment_info.cache_start_pc || !state->raw_mcontext_valid ||
      state->mcontext->pc != (app_pc)c->entry || state->raw_mcontext->pc < (byte *)c->resume)
    return true;
  if (c->moment != AFTER) return restore_memory;
  state->mcontext->pc = (app_pc)c->back;
  state->mcontext->xsp = c->stack + sizeof c->back;
  return true;
}
