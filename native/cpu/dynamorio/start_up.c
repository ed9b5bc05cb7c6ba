/* SPDX-License-Identifier: Apache-2.0 */
/* Unless start-up is to count, a process's first thread runs outside DynamoRIO until the first
 * launch (docs/dynamorio.md, "Start-up run natively"). The kernel reports each of its system calls
 * to our handler, which makes the harmless ones. For all others, and for signals and faults, the
 * thread goes on under DynamoRIO, and leaves it again behind its next system call. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/prctl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "client.h"
#include "system_call.h"

/* The assembly knows the fields up to `interrupted`. */
typedef struct start_up {
  uint64_t fs, our_fs;
  uint64_t resume;         /* where the block goes on, to be translated */
  uint64_t target;         /* native code */
  volatile uint64_t stays; /* under DynamoRIO: a signal came, or start-up is over */
  volatile uint8_t reported;
  volatile bool active;
  bool interrupted; /* in native code; else before */
  bool returns;     /* to the block, to be translated */
  bool at_call;     /* where it was interrupted */
  volatile bool over, called_back;
  uint64_t our_gs;
  siginfo_t sent;     /* a signal that must come again; number 0: none */
  int awaited;        /* the number of one that will, or 0 */
  thread_id_t thread; /* 0: none */
  greg_t registers[SIGNAL_REGISTERS];
} start_up;

/* In memory that stays when DynamoRIO unloads us, as the kernel reads it before each call. */
static start_up *now;

enum { CALL_BACK = 63 }; /* a signal to the thread when another one launches first */
enum { CALL_LENGTH = 2 };
enum { DISPATCH = 59, OFF = 0, ON = 1 }; /* prctl's, for reports of calls */

static bool possible, begun;
static xpu_signal_action usual; /* of the signal that reports calls */
static reg_id_t segment;
static uint offset; /* of a thread's pointer to `now`, or NULL, in its thread-local storage */

/* RCX is `now`, and R11 is free: a system call changes both. A signal takes the thread to
 * start_up_leaves, with R11 as `now`. */
extern const char start_up_enters[] __attribute__((visibility("hidden")));
extern const char start_up_is_known[] __attribute__((visibility("hidden")));
extern const char start_up_leaves[] __attribute__((visibility("hidden")));
extern const char start_up_returns[] __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".hidden start_up_enters, start_up_is_known, start_up_leaves, start_up_returns\n"
    "start_up_enters:\n"
    "  rdfsbase %r11\n"
    "  mov %r11, 8(%rcx)\n"
    "start_up_is_known:\n"
    "  mov %rcx, %r11\n"
    "  mov $1, %ecx\n"
    "  xchg %cl, 41(%r11)\n" /* before `stays` is read: end_soon() does the reverse */
    "  mov 32(%r11), %rcx\n"
    "  jrcxz 1f\n"
    "  movb $0, 41(%r11)\n"
    "  movb $0, 42(%r11)\n"
    "  jmp start_up_leaves\n"
    "1: mov 0(%r11), %rcx\n"
    "  wrfsbase %rcx\n"
    "  movb $1, 40(%r11)\n"
    "  mov 24(%r11), %rcx\n"
    "  jmp *%rcx\n"
    "start_up_leaves:\n"
    "  mov 8(%r11), %rcx\n"
    "  wrfsbase %rcx\n"
    "  jmp *16(%r11)\n"
    "start_up_returns:\n"
    "  mov $15, %eax\n" /* rt_sigreturn */
    "  syscall\n");
_Static_assert(SYS_rt_sigreturn == 15 && offsetof(start_up, our_fs) == 8 &&
                   offsetof(start_up, resume) == 16 && offsetof(start_up, target) == 24 &&
                   offsetof(start_up, stays) == 32 && offsetof(start_up, reported) == 40 &&
                   offsetof(start_up, active) == 41 && offsetof(start_up, interrupted) == 42,
               "the assembly has these");

/* ---- system calls ------------------------------------------------------------------------------
 */

static long call_natively(const greg_t *r) {
  return xp_system_call6((long)r[REG_RAX], (long)r[REG_RDI], (long)r[REG_RSI], (long)r[REG_RDX],
                         (long)r[REG_R10], (long)r[REG_R8], (long)r[REG_R9]);
}

/* Files of the kernel have no size, and some wait. */
static bool reads_file(long descriptor) {
  struct stat file;
  return xp_system_call(SYS_fstat, descriptor, (long)&file, 0, 0) == 0 && S_ISREG(file.st_mode) &&
         file.st_size > 0;
}

/* Or fails. */
static bool opens_file(long folder, long path) {
  struct stat file;
  return xp_system_call(SYS_newfstatat, folder, path, (long)&file, 0) != 0 ||
         ((S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)) && !names_own_file(folder, path, &file));
}

/* Calls that DynamoRIO ignores, and that no signal interrupts. */
static bool is_harmless(const greg_t *r) {
  enum { HERE = -100 };
  switch (r[REG_RAX]) {
    case SYS_stat:
    case SYS_lstat:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_access:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_lseek:
    case SYS_getdents64:
    case SYS_getcwd:
    case SYS_uname:
    case SYS_getrandom:
    case SYS_clock_gettime:
    case SYS_clock_getres:
    case SYS_gettimeofday:
    case SYS_time:
    case SYS_getpid:
    case SYS_getppid:
    case SYS_gettid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_getgroups:
    case SYS_sysinfo:
    case SYS_sched_getaffinity:
    case SYS_statfs:
    case SYS_fstatfs:
      return true;
    case SYS_read:
    case SYS_pread64:
      return reads_file((long)r[REG_RDI]);
    case SYS_open:
      return opens_file(HERE, (long)r[REG_RDI]);
    case SYS_openat:
      return opens_file((long)r[REG_RDI], (long)r[REG_RSI]);
    default:
      return false;
  }
}

/* From then on our handler would miss calls, native code find DynamoRIO's GS, or a tracer see our
 * signals. */
static bool ends_start_up(long number, long first) {
  enum { SET_GS = 0x1001 };
  return number == SYS_seccomp || (number == SYS_arch_prctl && first == SET_GS) ||
         (number == SYS_ptrace && first == PTRACE_TRACEME) ||
         (number == SYS_prctl && (first == DISPATCH || first == PR_SET_SECCOMP));
}

/* ---- places behind system calls ----------------------------------------------------------------
 */

typedef struct place {
  app_pc at;
  bool is_exit; /* decided when first built: DynamoRIO builds blocks again */
} place;

static place *places;
static size_t n_places, places_room;

static place *find(app_pc at) {
  for (size_t i = 0; i < n_places; i++)
    if (places[i].at == at) return &places[i];
  return NULL;
}

static void note(app_pc at, bool is_exit) {
  if (find(at)) return;
  places = grown(places, &places_room, n_places + 1, sizeof *places);
  places[n_places++] = (place){at, is_exit};
}

/* Behind one that does not return a function may begin, for which RCX is alive. */
static bool number_returns(long number) {
  return number != SYS_rt_sigreturn && number != SYS_exit && number != SYS_exit_group;
}

/* ---- translation -------------------------------------------------------------------------------
 */

static void **own_word(void) { return (void **)((byte *)dr_get_dr_segment_base(segment) + offset); }

static xpu_start_up *runtime; /* in libxpuprof_rt, once it is loaded */

/* The thread itself does, under DynamoRIO. */
static void end(void) {
  xp_system_call6(SYS_prctl, DISPATCH, OFF, 0, 0, 0, 0);
  signal_action(SIGSYS - 1, &usual, NULL);
  *own_word() = NULL;
  now->thread = 0;
  if (runtime) runtime->thread = 0;
  threads_count_start_up();
}

/* Now the thread is about to build its first blocks. */
static void send_again(void) {
  enum { MS = 10 };
  now->awaited = sent_come_again(&now->sent, MS) ? now->sent.si_signo : 0;
  now->sent.si_signo = 0;
}

/* Of a block that begins at the call, the number is not known. */
static void note_call_made(const greg_t *registers) {
  if (number_returns((long)registers[REG_RAX])) return;
  lock();
  note((app_pc)registers[REG_RIP] + CALL_LENGTH, false);
  unlock();
}

static void go_on_translated(void) {
  dr_mcontext_t context = {.size = sizeof context, .flags = DR_MC_ALL};
  dr_get_mcontext(dr_get_current_drcontext(), &context);
  now->returns = false;
  if (now->sent.si_signo) send_again();
  now->stays = now->over || now->awaited;
  if (runtime) thread_nests(runtime->depth, runtime->off);
  /* Elsewhere it may be in the middle of what changes its nesting. */
  if (now->over && (!now->interrupted || now->at_call)) end();
  if (now->interrupted && now->at_call) note_call_made(now->registers);
  if (now->interrupted)
    signal_read_registers(&context, now->registers);
  else
    context.pc = (app_pc)now->target;
  dr_redirect_execution(&context);
}

/* RCX is dead behind a system call. A thread that is to stay skips all that. */
static void insert_way_out(void *drcontext, app_pc start, instrlist_t *code) {
  instr_t *first = instrlist_first(code);
  instr_t *resume = INSTR_CREATE_label(drcontext), *stays = INSTR_CREATE_label(drcontext);
  const opnd_t r11 = opnd_create_reg(DR_REG_R11);
  dr_insert_read_raw_tls(drcontext, code, first, segment, offset, DR_REG_RCX);
  instr_t *far = INSTR_CREATE_label(drcontext), *near = INSTR_CREATE_label(drcontext);
  instrlist_meta_preinsert(code, first, INSTR_CREATE_jecxz(drcontext, opnd_create_instr(far)));
  instrlist_meta_preinsert(code, first, INSTR_CREATE_jmp_short(drcontext, opnd_create_instr(near)));
  instrlist_meta_preinsert(code, first, far);
  instrlist_meta_preinsert(code, first, INSTR_CREATE_jmp(drcontext, opnd_create_instr(stays)));
  instrlist_meta_preinsert(code, first, near);
  dr_insert_get_seg_base(drcontext, code, first, DR_SEG_FS, DR_REG_R11);
  insert_store(drcontext, code, first, DR_REG_RCX, offsetof(start_up, fs), DR_REG_R11);
  instrlist_insert_mov_instr_addr(drcontext, resume, NULL, r11, code, first, NULL, NULL);
  insert_store(drcontext, code, first, DR_REG_RCX, offsetof(start_up, resume), DR_REG_R11);
  insert_address(drcontext, code, first, DR_REG_R11, start);
  insert_store(drcontext, code, first, DR_REG_RCX, offsetof(start_up, target), DR_REG_R11);
  insert_address(drcontext, code, first, DR_REG_R11, start_up_enters);
  instrlist_meta_preinsert(code, first, INSTR_CREATE_jmp_ind(drcontext, r11));
  instrlist_meta_preinsert(code, first, resume);
  dr_insert_clean_call(drcontext, code, first, (void *)go_on_translated, false, 0);
  instrlist_meta_preinsert(code, first, stays);
}

/* ---- blocks behind system calls ----------------------------------------------------------------
 */

static bool follows_call(app_pc at) {
  uint8_t bytes[CALL_LENGTH];
  return dr_safe_read(at - sizeof bytes, sizeof bytes, bytes, NULL) && bytes[0] == 0x0f &&
         bytes[1] == 0x05;
}

static bool returns(instr_t *call) {
  instr_t *i = instr_get_prev_app(call);
  while (i && !instr_writes_to_reg(i, DR_REG_RAX, DR_QUERY_DEFAULT)) i = instr_get_prev_app(i);
  return !i || instr_get_opcode(i) != OP_mov_imm ||
         number_returns(opnd_get_immed_int(instr_get_src(i, 0)));
}

/* DynamoRIO ends a block there. */
static void note_call(void *drcontext, instrlist_t *code) {
  instr_t *last = instrlist_last_app(code);
  if (last && instr_get_opcode(last) == OP_syscall && returns(last))
    note(instr_get_app_pc(last) + instr_length(drcontext, last), true);
}

/* Of this thread's calls, from outside our own code. */
static void have_calls_reported(void) {
  if (xp_system_call6(SYS_prctl, DISPATCH, ON, (long)__ehdr_start, etext - __ehdr_start,
                      (long)&now->reported, 0))
    now->stays = now->over = true;
}

/* While calls are reported, a handler must not return by code of another library. */
static void begin(void) {
  enum { HAS_RESTORER = 0x04000000 };
  const xpu_signal_action action = {
      .handler = signal_first_handler(),
      .flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | HAS_RESTORER,
      .restorer = (uint64_t)start_up_returns,
      .mask = ~0ull,
  };
  if (begun) return;
  begun = true;
  __asm__ volatile("rdgsbase %0" : "=r"(now->our_gs));
  kernels_expected();
  signals_come_first();
  signal_action(SIGSYS - 1, &action, &usual);
  have_calls_reported();
}

void start_up_instrument(void *drcontext, app_pc start, instrlist_t *code, bool for_trace) {
  if (!possible || for_trace) return;
  static app_pc entry;
  if (!entry) entry = start;
  if (start == entry)
    dr_insert_clean_call(drcontext, code, instrlist_first(code), (void *)begin, false, 0);
  const bool follows = follows_call(start);
  lock();
  if (follows) note(start, false);
  note_call(drcontext, code);
  const bool leaves = follows && find(start)->is_exit;
  unlock();
  if (leaves) insert_way_out(drcontext, start, code);
}

void start_up_unloaded(app_pc start, app_pc end) {
  size_t kept = 0;
  for (size_t i = 0; i < n_places; i++)
    if (places[i].at < start || places[i].at >= end) places[kept++] = places[i];
  n_places = kept;
}

/* ---- signals -----------------------------------------------------------------------------------
 */

static void leave(greg_t *registers, bool interrupted) {
  enum { DIRECTION = 0x400 };
  __asm__ volatile("wrgsbase %0" : : "r"(now->our_gs)); /* a load of GS has set another one */
  now->active = false;
  now->reported = 0;
  now->interrupted = interrupted;
  now->returns = true;
  now->at_call = false;
  registers[REG_RIP] = (greg_t)start_up_leaves;
  registers[REG_R11] = (greg_t)now;
  registers[REG_EFL] &= ~(greg_t)DIRECTION;
}

/* The thread stands behind the call's instruction. */
static void handle_call(const siginfo_t *info, greg_t *registers) {
  const bool is_64 = info->si_arch == AUDIT_ARCH_X86_64;
  if (is_64 && ends_start_up((long)registers[REG_RAX], (long)registers[REG_RDI])) now->over = true;
  if (is_64 && !now->over && is_harmless(registers)) {
    registers[REG_RAX] = call_natively(registers);
    return;
  }
  signal_keep_registers(now->registers, registers, info);
  now->registers[REG_RIP] -= CALL_LENGTH;
  leave(registers, true);
  now->at_call = true;
}

/* Takes the thread back from wherever it is outside the code cache; false: it is in it. */
static bool take_back(const siginfo_t *info, greg_t *registers) {
  const uint64_t pc = (uint64_t)registers[REG_RIP];
  if (signal_came_between(pc, start_up_enters, start_up_leaves)) {
    if (pc < (uint64_t)start_up_is_known) __asm__ volatile("rdfsbase %0" : "=r"(now->our_fs));
    leave(registers, false);
  } else if (signal_came_between(pc, start_up_leaves, start_up_returns)) {
    leave(registers, now->interrupted);
  } else if (now->active) {
    signal_keep_registers(now->registers, registers, info);
    leave(registers, true);
  } else {
    return false;
  }
  return true;
}

static bool own_thread(void) { return xp_system_call(SYS_gettid, 0, 0, 0, 0) == now->thread; }

bool start_up_interrupted(int number, const siginfo_t *info, ucontext_t *context) {
  enum { REPORTED = 2 };
  greg_t *registers = context->uc_mcontext.gregs;
  const bool fault = info->si_code > 0 && signal_is_of_code(number);
  if (!possible || !now->thread || !own_thread()) return false;
  if (number == SIGSYS && info->si_code == REPORTED) {
    handle_call(info, registers);
    return true;
  }
  const bool own = number == CALL_BACK && now->called_back && info->si_code == SI_TKILL;
  const bool was_native = now->active;
  now->stays = 1;
  if (number == now->awaited) now->awaited = 0;
  const bool taken = take_back(info, registers);
  if (own) now->called_back = false;
  if (taken && sent_seems_fault(number, info)) {
    now->sent = *info;
    return true;
  }
  return own || (was_native && fault); /* the thread will cause the fault again */
}

/* ---- life --------------------------------------------------------------------------------------
 */

static bool kernel_can_report(void) {
  return xp_system_call6(SYS_prctl, DISPATCH, OFF, 0, 0, 0, 0) == 0;
}

/* A debugger stops at each signal. */
static bool is_traced(void) {
  static const char TRACER[] = "\nTracerPid:\t";
  static char *text;
  static size_t room;
  for (const char *c = file_text("/proc/self/status", &text, &room); *c; c++)
    if (text_starts(c, TRACER)) return c[sizeof TRACER - 1] != '0';
  return false;
}

void start_up_init(void) {
  const bool asked = options.native_start_up;
  options.native_start_up = false;
  if (!asked || !kernels_are_possible() || is_traced() || !kernel_can_report()) return;
  possible = dr_raw_tls_calloc(&segment, &offset, 1, 0) && segment == DR_SEG_GS;
  now = (start_up *)xp_system_call6(SYS_mmap, 0, sizeof *now, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  possible &= (long)now > 0;
  options.native_start_up = possible;
}

bool start_up_thread_starts(void *drcontext) {
  if (!possible) return false;
  const bool first = !begun && !now->thread;
  *own_word() = first ? (void *)now : NULL;
  if (first) now->thread = dr_get_thread_id(drcontext);
  return first;
}

void start_up_thread_ends(void *drcontext) {
  if (!possible || dr_get_thread_id(drcontext) != now->thread) return;
  now->thread = 0;
  if (runtime) runtime->thread = 0;
}

/* A call of clone3 may have set the default one. */
static bool has_handler(void) {
  xpu_signal_action action;
  signal_action(SIGSYS - 1, NULL, &action);
  return action.handler == signal_first_handler();
}

void start_up_forked(void *drcontext) {
  if (!possible) return;
  const bool goes_on = now->thread && *own_word() && has_handler();
  if (!goes_on) *own_word() = NULL;
  now->thread = goes_on ? dr_get_thread_id(drcontext) : 0;
  if (goes_on) have_calls_reported();
  if (!goes_on && runtime) runtime->thread = 0;
}

static void end_soon(void) {
  xpu_signal_action action;
  now->over = true;
  __atomic_store_n(&now->stays, 1, __ATOMIC_SEQ_CST);
  threads_count_start_up();
  signal_action(CALL_BACK - 1, NULL, &action);
  if (own_thread() || !now->active || action.handler != signal_first_handler()) return;
  now->called_back = true;
  xp_system_call(SYS_tgkill, (long)dr_get_process_id(), (long)now->thread, CALL_BACK, 0);
}

/* The thread itself may be under DynamoRIO behind a signal. Secure computing of another thread may
 * be for all threads. */
void start_up_before_call(void *drcontext, int number, long first) {
  if (!possible || !now->thread || now->over || thread_is_child(drcontext)) return;
  if (ends_start_up(number, first) && (number == SYS_seccomp || own_thread())) end_soon();
}

void start_up_restores(void *drcontext, dr_restore_state_info_t *state) {
  if (possible && dr_get_thread_id(drcontext) == now->thread && now->returns && now->interrupted &&
      state->fragment_info.cache_start_pc && state->mcontext->pc == (app_pc)now->target)
    signal_read_registers(state->mcontext, now->registers);
}

void start_up_is_told(uint64_t what, xpu_start_up *told) {
  if (!possible || !now->thread || now->over) return;
  if (what == XPU_PRCTL_LAUNCHES) end_soon();
  if (what != XPU_PRCTL_LOADED) return;
  runtime = told;
  runtime->thread = now->fs;
}
