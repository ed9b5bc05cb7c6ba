/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Kernels of a device that is this processor run natively (docs/valgrind.md). The block at a
 * kernel's entry is a call of ours (hand_over.c), which calls the kernel on the program's stack. */
#include "native_kernels.h"

#include "hand_over.h"
#include "host_cpu.h"
#include "left_signals.h"
#include "lock.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "tool.h"
#include "unknown_instructions.h"

/* Declared in Valgrind's core. */
extern Bool VG_(is_exiting)(ThreadId);
extern Int VG_(gettid)(void);
extern ThreadId VG_(lwpid_to_vgtid)(Int);
extern Int VG_(max_signal);
extern void VG_(poll_signals)(ThreadId);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId, Int, vki_sigset_t *, vki_sigset_t *);
extern Bool VG_(am_addr_is_in_extensible_client_stack)(Addr);
extern Bool VG_(extend_stack)(ThreadId, Addr);
extern void VG_(synth_fault)(ThreadId);
extern void VG_(synth_fault_mapping)(ThreadId, Addr);
extern void VG_(synth_fault_perms)(ThreadId, Addr);
extern void VG_(synth_sigbus)(ThreadId);
extern void VG_(synth_sigfpe)(ThreadId, UInt);
extern void VG_(synth_sigtrap)(ThreadId);

enum { MXCSR_DEFAULT = 0x1f80, X87_DEFAULT = 0x37f };
enum { SEGMENT_UNMAPPED = 1, SEGMENT_PROTECTED = 2 }; /* si_code */
enum { SIGNAL_STACK = 1 << 16 };

typedef struct event {
  Int signal, code;
  Addr address, instruction;
} event;

/* A thread's call. The assembly below knows the first fields; a call that was interrupted by a
 * signal returns through them, so they stay where they are. */
typedef struct call {
  UWord tool_stack;
  Addr entry;
  Addr stack; /* as before the program's own call */
  UWord arguments[6];
  UInt mxcsr, tool_mxcsr;
  UShort x87, tool_x87;
  UShort has_avx;
  volatile UShort open;               /* the program's signals are, until the thread leaves */
  vki_sigset_t blocked, tool_blocked; /* signals, in the kernel as the program has it */
  volatile Bool inside;
  Bool has_lock;   /* the signal handler took it */
  Addr returns_to; /* in the program */
  Addr parked;     /* its stack pointer after a signal */
  Addr fs;         /* the host's FS, as last set */
  UChar *signal_stack;
  struct vki_ucontext *interrupted; /* by a signal: all registers, to continue with */
  UChar *kept;                      /* the memory that it lies in */
  event event;                      /* the signal */
} call;

static call *calls; /* by ThreadId */
static UInt has_avx;

/* ---- assembly -------------------------------------------------------------------------------- */

/* Both return whether the kernel was stopped by a signal. */
extern UWord xp_native_call(call *c);
extern UWord xp_native_resume(call *c, struct vki_ucontext *interrupted);
extern const UChar xp_native_leaves[], xp_native_returns[], xp_native_is_back[], xp_native_stops[];
extern const UChar __executable_start[], etext[];

/* RBX, which kernels preserve, leads back to the call. Contexts are kept from the program's stack
 * only, where they stay valid. */
__asm__(
    ".text\n"
    ".macro XP_ENTER\n"
    "  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
    "  mov %rdi, %rbx\n"
    "  mov %rsp, 0(%rbx)\n"
    "  stmxcsr 76(%rbx)\n"
    "  fnstcw 82(%rbx)\n"
    ".endm\n"
    "xp_native_resume:\n"
    "  XP_ENTER\n"
    "  mov %rsi, %rsp\n"
    "  mov $15, %eax\n" /* rt_sigreturn */
    "  syscall\n"
    "  ud2\n"
    "xp_native_call:\n"
    "  XP_ENTER\n"
    "  mov 16(%rbx), %rsp\n"
    "xp_native_leaves:\n"
    "  cmpw $0, 86(%rbx)\n"
    "  jne 1f\n"
    "  mov $14, %eax\n" /* rt_sigprocmask */
    "  mov $2, %edi\n"  /* SIG_SETMASK */
    "  lea 88(%rbx), %rsi\n"
    "  xor %edx, %edx\n"
    "  mov $8, %r10d\n"
    "  movw $1, 86(%rbx)\n"
    "  syscall\n"
    "1: ldmxcsr 72(%rbx)\n"
    "  fldcw 80(%rbx)\n"
    "  mov 24(%rbx), %rdi\n"
    "  mov 32(%rbx), %rsi\n"
    "  mov 40(%rbx), %rdx\n"
    "  mov 48(%rbx), %rcx\n"
    "  mov 56(%rbx), %r8\n"
    "  mov 64(%rbx), %r9\n"
    "  call *8(%rbx)\n"
    "xp_native_returns:\n"
    "  xor %eax, %eax\n"
    "  mov 0(%rbx), %rsp\n"
    "xp_native_is_back:\n"
    "1: fldcw 82(%rbx)\n"
    "  ldmxcsr 76(%rbx)\n"
    "  cmpw $0, 84(%rbx)\n" /* SSE code is slow while upper halves are in use */
    "  je 2f\n"
    "  vzeroupper\n"
    "2: pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
    "  ret\n"
    "xp_native_stops:\n" /* the signal handler has set RAX, RBX and RSP */
    "  fninit\n"
    "  jmp 1b\n");
_Static_assert(__builtin_offsetof(call, stack) == 16 && __builtin_offsetof(call, mxcsr) == 72 &&
                   __builtin_offsetof(call, has_avx) == 84 &&
                   __builtin_offsetof(call, open) == 86 && __builtin_offsetof(call, blocked) == 88,
               "the assembly has these offsets");

/* ---- translation ----------------------------------------------------------------------------- */

/* Of kernels without files, what the OpenCL layer knows: until it has loaded one that may call the
 * system, all of them only compute. Compiled for the processor that Valgrind shows, they may as
 * well be translated. */
static enum { NO_KERNELS, COMPUTE_ONLY, MAY_CALL } generated;

void kernels_loaded(Bool compute_only) {
  if (generated != MAY_CALL) generated = compute_only ? COMPUTE_ONLY : MAY_CALL;
}

static Bool is_entry(ThreadId tid, Addr code) {
  return thread_is_off(tid) &&
         (image_is_kernel_entry(code) ||
          (generated == COMPUTE_ONLY && image_calls_kernel(code, VG_(get_SP)(tid))));
}

static call_out call_kernel;

Bool kernel_translate(IRSB *sb, Addr code) {
  if (!is_entry(VG_(get_running_tid)(), code)) return False;
  add_call_out(sb, call_kernel, code);
  return True;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* FS belongs to the program: the tool has no thread-local storage. The signal stack is needed when
 * the fault is that the program's stack must grow. */
static void set_up_thread(call *c, Addr fs) {
  if (fs == c->fs) return;
  if (!c->signal_stack) c->signal_stack = VG_(malloc)("xpuprof.kernels", SIGNAL_STACK);
  vki_stack_t stack = {.ss_sp = c->signal_stack, .ss_size = SIGNAL_STACK};
  xp_system_call(__NR_sigaltstack, (long)&stack, 0, 0, 0);
  VG_(sigprocmask)(VKI_SIG_SETMASK, NULL, &c->tool_blocked);
  xp_system_call(__NR_arch_prctl, VKI_ARCH_SET_FS, (long)fs, 0, 0);
  c->fs = fs;
}

static void prepare(ThreadId tid, call *c, const VexGuestAMD64State *state, Addr entry) {
  c->entry = entry;
  c->stack = state->guest_RSP + sizeof(UWord);
  c->returns_to = *(Addr *)state->guest_RSP;
  c->arguments[0] = state->guest_RDI;
  c->arguments[1] = state->guest_RSI;
  c->arguments[2] = state->guest_RDX;
  c->arguments[3] = state->guest_RCX;
  c->arguments[4] = state->guest_R8;
  c->arguments[5] = state->guest_R9;
  c->mxcsr = (UInt)(MXCSR_DEFAULT | (state->guest_SSEROUND & 3) << 13 | mxcsr_flushes(tid));
  c->x87 = X87_DEFAULT;
  c->has_avx = has_avx;
  if (!c->open) VG_(do_sys_sigprocmask)(tid, VKI_SIG_SETMASK, NULL, &c->blocked);
}

/* Without the big lock: other threads run, signals and the end of the process reach this one. A
 * kernel may wait for another thread, so it never keeps the lock. */
static Bool run(ThreadId tid, call *c, Bool resumes) {
  c->has_lock = False;
  c->inside = True;
  if (resumes) c->open = True;
  lock_hand_over(tid);
  UWord stopped = resumes ? xp_native_resume(c, c->interrupted) : xp_native_call(c);
  c->inside = False;
  if (c->has_lock)
    enter_translated_code(tid);
  else
    lock_take_back(tid);
  return stopped != 0;
}

static void deliver(ThreadId tid, const event *f) {
  switch (f->signal) {
    case VKI_SIGSEGV:
      if (f->code == SEGMENT_UNMAPPED)
        VG_(synth_fault_mapping)(tid, f->address);
      else if (f->code == SEGMENT_PROTECTED)
        VG_(synth_fault_perms)(tid, f->address);
      else
        VG_(synth_fault)(tid);
      break;
    case VKI_SIGBUS:
      VG_(synth_sigbus)(tid);
      break;
    case VKI_SIGFPE:
      VG_(synth_sigfpe)(tid, (UInt)f->code);
      break;
    case VKI_SIGILL:
      __real_vgPlain_synth_sigill(tid, f->instruction);
      break;
    case VKI_SIGTRAP:
      VG_(synth_sigtrap)(tid);
      break;
    default: /* pending, or the process ends: then Valgrind's scheduler sees it */
      VG_(poll_signals)(tid);
      break;
  }
}

/* After a signal the program is at the kernel's entry, with the tool's return address on its stack,
 * which no call of the program's pushes: if its signal handler returns, the kernel continues. The
 * handler's frame goes below what the kernel has on the stack. */
static void park(ThreadId tid, call *c, VexGuestAMD64State *state) {
  enum { RED_ZONE = 128, ALIGN = 16 };
  Addr top = VG_ROUNDDN(c->interrupted->uc_mcontext.rsp - RED_ZONE, ALIGN) - sizeof(Addr);
  if (!VG_(am_is_valid_for_client)(top, sizeof(Addr), VKI_PROT_WRITE)) VG_(extend_stack)(tid, top);
  if (VG_(am_is_valid_for_client)(top, sizeof(Addr), VKI_PROT_WRITE)) {
    *(Addr *)top = (Addr)xp_native_returns;
    state->guest_RSP = top;
  }
  c->parked = state->guest_RSP;
}

static UWord call_kernel(VexGuestAMD64State *state, Addr entry) {
  ThreadId tid = VG_(get_running_tid)();
  call *c = &calls[tid];
  Addr *top = (Addr *)state->guest_RSP;
  Bool resumes = *top == (Addr)xp_native_returns && c->interrupted && c->parked == (Addr)top;
  set_up_thread(c, state->guest_FS_CONST);
  if (!resumes) prepare(tid, c, state, entry);
  Bool stopped = run(tid, c, resumes);
  if (stopped) {
    park(tid, c, state);
    deliver(tid, &c->event);
  } else {
    state->guest_RSP = c->stack;
    state->guest_RIP = c->returns_to;
  }
  if (!stopped && !VG_(is_exiting)(tid)) return False;
  state->host_EvC_COUNTER = (UInt)-1;
  return True;
}

/* Opening and closing signals takes longer than a work-group of a small kernel, so they stay open
 * until the thread leaves translated code. */
void kernels_left(ThreadId tid, ULong blocks_done) {
  call *c = &calls[tid];
  (void)blocks_done;
  if (!c->open) return;
  VG_(sigprocmask)(VKI_SIG_SETMASK, &c->tool_blocked, NULL);
  c->open = False;
}

/* ---- signals --------------------------------------------------------------------------------- */

typedef void handler(Int, vki_siginfo_t *, struct vki_ucontext *);

static handler *valgrinds[_VKI_NSIG + 1];

static Bool in_kernel(const struct vki_ucontext *context) {
  Addr at = context->uc_mcontext.rip;
  return at < (Addr)__executable_start || at >= (Addr)etext ||
         (at >= (Addr)xp_native_leaves && at < (Addr)xp_native_is_back);
}

static void close_signals(call *c, struct vki_ucontext *context) {
  context->uc_sigmask = c->tool_blocked;
  c->open = False;
}

static void leave(call *c, struct vki_ucontext *context) {
  context->uc_mcontext.rip = (Addr)xp_native_stops;
  context->uc_mcontext.rbx = (Addr)c;
  context->uc_mcontext.rsp = c->tool_stack;
  context->uc_mcontext.rax = 1;
  close_signals(c, context);
}

/* As the kernel does natively: the main thread's stack grows to where it is used. */
static Bool stack_grew(ThreadId tid, const event *f) {
  const NSegment *hole = VG_(am_find_nsegment)(f->address);
  Addr page = VG_PGROUNDDN(f->address);
  return f->signal == VKI_SIGSEGV && f->code == SEGMENT_UNMAPPED && hole && hole->kind == SkResvn &&
         VG_(am_addr_is_in_extensible_client_stack)(page) && VG_(extend_stack)(tid, page);
}

/* A copy of the interrupted state, as rt_sigreturn takes it. */
static void keep(call *c, const struct vki_ucontext *context) {
  enum { ALIGN = 64, SIZE_AT = 468, LEGACY = 512, CONTEXT = VG_ROUNDUP(sizeof *context, ALIGN) };
  const UChar *vectors = (const UChar *)context->uc_mcontext.fpstate;
  UInt size = *(const UInt *)(vectors + SIZE_AT);
  if (size < LEGACY) size = LEGACY;
  VG_(free)(c->kept);
  c->kept = VG_(malloc)("xpuprof.kernels", CONTEXT + size + ALIGN);
  c->interrupted = (struct vki_ucontext *)VG_ROUNDUP((Addr)c->kept, ALIGN);
  *c->interrupted = *context;
  c->interrupted->uc_mcontext.fpstate = (void *)((Addr)c->interrupted + CONTEXT);
  VG_(memcpy)(c->interrupted->uc_mcontext.fpstate, vectors, size);
}

static Bool is_of_code(Int signal) {
  return signal == VKI_SIGSEGV || signal == VKI_SIGBUS || signal == VKI_SIGFPE ||
         signal == VKI_SIGILL || signal == VKI_SIGTRAP;
}

/* Blocked while the tool runs, it stays pending until Valgrind looks for signals. */
static void send_again(Int signal, vki_siginfo_t *info) {
  if (signal != VG_(max_signal))
    xp_system_call(__NR_rt_tgsigqueueinfo, VG_(getpid)(), VG_(gettid)(), signal, (long)info);
}

static void in_call(ThreadId tid, call *c, Int signal, vki_siginfo_t *info,
                    struct vki_ucontext *context) {
  VG_(acquire_BigLock)(tid, "kernel's signal");
  c->event = (event){signal, info->si_code, (Addr)info->_sifields._sigfault._addr,
                     context->uc_mcontext.rip};
  Bool sent = info->si_code <= 0;
  if (is_of_code(signal) && sent) { /* Valgrind queues it */
    valgrinds[signal](signal, info, context);
  } else if (sent || !stack_grew(tid, &c->event)) {
    if (!is_of_code(signal)) send_again(signal, info);
    keep(c, context);
    leave(c, context);
    c->has_lock = True;
    return;
  }
  VG_(release_BigLock)(tid, WAITING, "kernel's signal");
}

/* A division faults in its translation, whose address the processor tells. */
static void name_instruction(ThreadId tid, Int signal, vki_siginfo_t *info) {
  if (signal == VKI_SIGFPE && info->si_code > 0 && tid != VG_INVALID_THREADID)
    info->_sifields._sigfault._addr = (void *)VG_(get_IP)(tid);
}

static void on_signal(Int signal, vki_siginfo_t *info, struct vki_ucontext *context) {
  if (left_signal_returns(signal)) return;
  ThreadId tid = calls ? VG_(lwpid_to_vgtid)(VG_(gettid)()) : VG_INVALID_THREADID;
  call *c = tid == VG_INVALID_THREADID ? NULL : &calls[tid];
  if (c && c->inside && in_kernel(context)) {
    in_call(tid, c, signal, info, context);
  } else if (c && c->open && !is_of_code(signal)) {
    send_again(signal, info);
    close_signals(c, context);
  } else {
    name_instruction(tid, signal, info);
    valgrinds[signal](signal, info, context);
  }
}

/* Valgrind's handlers expect translated code or a system call. */
extern Int __real_vgPlain_sigaction(Int, const vki_sigaction_toK_t *, vki_sigaction_fromK_t *);
extern Int __wrap_vgPlain_sigaction(Int, const vki_sigaction_toK_t *, vki_sigaction_fromK_t *);

Int __wrap_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t *action,
                             vki_sigaction_fromK_t *old) {
  handler *before = valgrinds[signal];
  vki_sigaction_toK_t ours;
  if (action) {
    ours = *action;
    Bool handles = ours.ksa_handler != VKI_SIG_DFL && ours.ksa_handler != VKI_SIG_IGN;
    valgrinds[signal] = handles ? (handler *)(void *)ours.ksa_handler : NULL;
    if (handles) {
      ours.ksa_handler = signal_is_left(signal) ? VKI_SIG_DFL : (void *)on_signal;
      ours.sa_flags |= VKI_SA_ONSTACK;
    }
  }
  Int result = __real_vgPlain_sigaction(signal, action ? &ours : NULL, old);
  if (old && before) {
    old->ksa_handler = (void *)before;
    old->sa_flags &= ~(unsigned long)VKI_SA_ONSTACK;
  }
  return result;
}

/* ---- threads --------------------------------------------------------------------------------- */

void kernels_init(void) {
  calls = VG_(calloc)("xpuprof.kernels", VG_N_THREADS, sizeof *calls);
  has_avx = host_has_avx();
}

void kernels_thread_created(ThreadId tid) {
  call *c = &calls[tid];
  *c = (call){.signal_stack = c->signal_stack, .kept = c->kept};
}
