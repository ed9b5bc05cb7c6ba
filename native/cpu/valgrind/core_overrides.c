/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Parts of Valgrind's core and of VEX replaced at link time (ld's --wrap), because they would slow
 * the program with something this tool never uses, or harm it. */
#include "address_sanitizer.h"
#include "descriptor_limit.h"
#include "executables.h"
#include "hand_over.h"
#include "host_cpu.h"
#include "images_left_alone.h"
#include "libvex.h"
#include "main_stack.h"
#include "native_kernels.h"
#include "program_name.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_xarray.h"
#include "system_call.h"
#include "tool.h"
#include "unknown_instructions.h"

/* Symbols and line tables are needed for the routine filter only; reading them costs a program with
 * large libraries (LLVM in an OpenCL runtime) more than translating its code. */
extern ULong __real_vgPlain_di_notify_mmap(Addr, Bool, Int);
extern ULong __wrap_vgPlain_di_notify_mmap(Addr, Bool, Int);

ULong __wrap_vgPlain_di_notify_mmap(Addr address, Bool allow_valgrind_file, Int descriptor) {
  if (!option_filters_routines()) return 0;
  return __real_vgPlain_di_notify_mmap(address, allow_valgrind_file, descriptor);
}

/* VEX checks its own intermediate code after each pass, which takes a tenth of the translation
 * time. */
struct _IRSB;
extern void __wrap_sanityCheckIRSB(const struct _IRSB *, const HChar *, Bool, UInt);

void __wrap_sanityCheckIRSB(const struct _IRSB *sb, const HChar *caller, Bool flat, UInt word) {
  (void)sb, (void)caller, (void)flat, (void)word;
}

/* A process that has dropped its rights cannot make a log in the run directory. */
extern SysRes __real_vgPlain_open(const HChar *, Int, Int);
extern SysRes __wrap_vgPlain_open(const HChar *, Int, Int);

static Int log_descriptor = -1;

SysRes __wrap_vgPlain_open(const HChar *path, Int flags, Int mode) {
  SysRes result = __real_vgPlain_open(path, flags, mode);
  if (!(flags & VKI_O_CREAT) || !VG_(strstr)(path, "/valgrind-")) return result;
  if (sr_isError(result)) result = __real_vgPlain_open("/dev/null", VKI_O_WRONLY, 0);
  if (!sr_isError(result)) log_descriptor = (Int)sr_Res(result);
  return result;
}

/* Valgrind writes to a duplicate above the program's limit and leaves the first one open. */
void log_hide(void) {
  if (log_descriptor >= 0) VG_(close)(log_descriptor);
  log_descriptor = -1;
}

/* Valgrind writes what a program finds in /proc/self/cmdline and auxv to temporary files, and ends
 * where it can make none: a read-only root folder, a folder without /tmp, another user's. */
extern Int VG_(safe_fd)(Int descriptor);
extern Int __real_vgPlain_mkstemp(const HChar *, HChar *);
extern Int __wrap_vgPlain_mkstemp(const HChar *, HChar *);
extern Int __real_vgPlain_unlink(const HChar *);
extern Int __wrap_vgPlain_unlink(const HChar *);

Int __wrap_vgPlain_mkstemp(const HChar *name, HChar *path) {
  enum { CLOSED_BY_EXEC = 1 };
  const Word descriptor = xp_system_call(__NR_memfd_create, (Word)name, CLOSED_BY_EXEC, 0, 0);
  if (descriptor < 0) return __real_vgPlain_mkstemp(name, path);
  *path = 0;
  return VG_(safe_fd)((Int)descriptor);
}

Int __wrap_vgPlain_unlink(const HChar *path) { return *path ? __real_vgPlain_unlink(path) : 0; }

/* Valgrind also opens a program that it does not follow; only executing it may be permitted. And it
 * takes files that the kernel refuses; the tool would then end in place of the program, which is
 * told the error instead. */
extern Int VG_(check_executable)(Bool *is_setuid, const HChar *path, Bool allow_setuid);
extern SysRes VG_(mk_SysRes_Success)(UWord value);
extern SysRes VG_(mk_SysRes_Error)(UWord error);
extern SysRes __real_vgPlain_pre_exec_check(const HChar *, Int *, Bool);
extern SysRes __wrap_vgPlain_pre_exec_check(const HChar *, Int *, Bool);

SysRes __wrap_vgPlain_pre_exec_check(const HChar *path, Int *descriptor, Bool allow_setuid) {
  Bool is_setuid;
  path = executable_meant(path);
  SysRes result = __real_vgPlain_pre_exec_check(path, descriptor, allow_setuid);
  if (sr_isError(result) && sr_Err(result) == VKI_EACCES && !descriptor && allow_setuid &&
      VG_(check_executable)(&is_setuid, path, True) == 0)
    return VG_(mk_SysRes_Success)(0);
  if (sr_isError(result) || descriptor) return result;
  Int refused = arguments_refused(path, 0);
  if (!refused) refused = executable_refused(path);
  return refused ? VG_(mk_SysRes_Error)((UWord)refused) : result;
}

/* Programs started by the device runtime (compilers, linkers) are not the program's work and run
 * natively, as do those that the tool cannot follow. */
extern Bool __real_vgPlain_should_we_trace_this_child(const HChar *, const HChar **);
extern Bool __wrap_vgPlain_should_we_trace_this_child(const HChar *, const HChar **);
extern const HChar *VG_(name_of_launcher), *VG_(libdir);
extern XArray *VG_(args_for_valgrind); /* of strings */

static Bool may_execute(const HChar *path) {
  enum { EXECUTE = 1, EFFECTIVE = 0x200, FACCESSAT2 = 439 };
  Word error = xp_system_call(FACCESSAT2, VKI_AT_FDCWD, (Word)path, EXECUTE, EFFECTIVE);
  if (error == -VKI_ENOSYS) error = xp_system_call(__NR_access, (Word)path, EXECUTE, 0, 0);
  return error == 0;
}

static Bool may_execute_tool(void) {
  HChar tool[VG_(strlen)(VG_(libdir)) + 32];
  VG_(snprintf)(tool, sizeof tool, "%s/xpuprof-amd64-linux", VG_(libdir));
  return may_execute(VG_(name_of_launcher)) && may_execute(tool);
}

/* The launcher's, the tool's and Valgrind's variables; generous, since too little ends the program.
 */
static SizeT size_of_own_arguments(void) {
  enum { AROUND = 8192 };
  SizeT size = AROUND;
  for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_valgrind)); i++)
    size += VG_(strlen)(*(HChar **)VG_(indexXA)(VG_(args_for_valgrind), i)) + 1 + sizeof(HChar *);
  return size + 3 * VG_(strlen)(VG_(libdir));
}

static Bool only_valgrind_lacks_room(const HChar *path) {
  return !arguments_refused(path, 0) && arguments_refused(path, size_of_own_arguments());
}

static Bool can_follow(const HChar *path) {
  const HChar *reason = path ? image_left_alone(path) : NULL;
  if (!reason && path && only_valgrind_lacks_room(path))
    reason = "a program whose arguments leave no room for Valgrind's own";
  if (!reason && !may_execute_tool())
    reason = "a program of another user or root folder, where Valgrind cannot be executed";
  if (!reason && path && has_address_sanitizer(path))
    reason = "a program with AddressSanitizer (impossible under Valgrind)";
  if (!reason) return True;
  VG_(umsg)("xpuprof: %s runs natively: it is %s\n", path, reason);
  if (process_is_root()) stream_runs_natively(reason);
  return False;
}

static const HChar *path_asked; /* by the call that executes a program */

Bool __wrap_vgPlain_should_we_trace_this_child(const HChar *path, const HChar **arguments) {
  path_asked = path;
  if (path) path = executable_meant(path);
  Bool trace = !thread_is_off(VG_(get_running_tid)()) && can_follow(path) &&
               __real_vgPlain_should_we_trace_this_child(path, arguments);
  log_drop_empty();
  return trace;
}

/* A program that runs natively is executed by its path and with its own arguments, which may lie in
 * memory that cannot be written; another by the launcher, with that path among ours. */
extern SysRes __real_vgPlain_do_syscall(UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord,
                                        UWord);
extern SysRes __wrap_vgPlain_do_syscall(UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord,
                                        UWord);

static UWord execute_what_is_meant(UWord path, const HChar **arguments) {
  const HChar **at = arguments;
  if (path == (UWord)path_asked) return (UWord)executable_meant(path_asked);
  while (*at && *at != path_asked) at++;
  if (!*at) return path;
  program_name_pass(arguments, at);
  *at = executable_meant(path_asked);
  return path;
}

SysRes __wrap_vgPlain_do_syscall(UWord call, UWord a, UWord b, UWord c, UWord d, UWord e, UWord f,
                                 UWord g, UWord h) {
  if (call == __NR_execve) {
    if (path_asked) a = execute_what_is_meant(a, (const HChar **)b);
    path_asked = NULL;
    main_stack_before_exec();
    descriptor_limit_before_exec();
  }
  const SysRes result = __real_vgPlain_do_syscall(call, a, b, c, d, e, f, g, h);
  if (call == __NR_execve) descriptor_limit_after_failed_exec();
  return result;
}

/* Valgrind sends the signal that ends the program to the process. While another thread is still
 * leaving, the signal may become that thread's; the sender goes on, panics and exits with 1. */
extern Int VG_(gettid)(void);
extern void __wrap_vgPlain_kill_self(Int);

void __wrap_vgPlain_kill_self(Int signal) {
  unknown_instruction_ends(signal);
  vki_sigaction_toK_t action = {.ksa_handler = VKI_SIG_DFL};
  vki_sigset_t mask;
  VG_(sigemptyset)(&mask);
  VG_(sigaddset)(&mask, signal);
  VG_(sigaction)(signal, &action, NULL);
  VG_(sigprocmask)(VKI_SIG_UNBLOCK, &mask, NULL);
  xp_system_call(__NR_tgkill, VG_(getpid)(), VG_(gettid)(), signal, 0);
}

/* A thread that ends the process, or executes another program, takes the others out of their system
 * calls by a signal of Valgrind's, once, and waits for them. The kernel refuses that signal while
 * as many are queued as the user may have. One from kill() needs no place in the queue, but any of
 * the threads may get it, and several make one: so it is sent again until all have gone. The sender
 * blocks it. */
extern Int VG_(max_signal); /* that signal */
extern Int __real_vgPlain_tkill(Int, Int);
extern Int __wrap_vgPlain_tkill(Int, Int);
extern void __real_vgPlain_vg_yield(void);
extern void __wrap_vgPlain_vg_yield(void);

static Bool queue_was_full;

Int __wrap_vgPlain_tkill(Int thread, Int signal) {
  if (signal != VG_(max_signal)) return __real_vgPlain_tkill(thread, signal);
  Word error = xp_system_call(__NR_tgkill, VG_(getpid)(), thread, signal, 0);
  if (error == -VKI_EAGAIN) queue_was_full = True;
  return error ? -1 : 0;
}

static void send_again(void) {
  enum { MOST = 10000 }; /* else a thread that never leaves would let them fill the user's queue */
  static UInt sent;
  const struct vki_timespec moment = {0, 1000000};
  if (sent++ >= MOST) return;
  xp_system_call(__NR_kill, VG_(getpid)(), VG_(max_signal), 0, 0);
  xp_system_call(__NR_nanosleep, (Word)&moment, 0, 0, 0);
}

void __wrap_vgPlain_vg_yield(void) {
  if (queue_was_full) send_again();
  __real_vgPlain_vg_yield();
}

/* Defined in VEX: turns one instruction into intermediate code. */
typedef struct {
  UInt len;
  enum { Dis_StopHere = 0x10, Dis_Continue } whatNext;
  enum { Dis_HintNone = 0x20, Dis_HintVerbose } hint;
  IRJumpKind jk_StopHere;
} DisResult;

extern DisResult __real_disInstr_AMD64(IRSB *, const UChar *, Long, Addr, VexArch,
                                       const VexArchInfo *, const VexAbiInfo *, VexEndness, Bool);
extern DisResult __wrap_disInstr_AMD64(IRSB *, const UChar *, Long, Addr, VexArch,
                                       const VexArchInfo *, const VexAbiInfo *, VexEndness, Bool);

static Bool is_xgetbv(const UChar *code) {
  return code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xd0;
}

/* A kernel may start with instructions that VEX does not know. */
DisResult __wrap_disInstr_AMD64(IRSB *sb, const UChar *code, Long delta, Addr at, VexArch arch,
                                const VexArchInfo *host, const VexAbiInfo *abi, VexEndness endness,
                                Bool complains) {
  if (delta == 0 && kernel_translate(sb, at))
    return (DisResult){1, Dis_StopHere, Dis_HintNone, Ijk_Boring};
  DisResult result =
      __real_disInstr_AMD64(sb, code, delta, at, arch, host, abi, endness, complains);
  if (result.len == 3 && is_xgetbv(code + delta)) add_xgetbv(sb, image_role_of(at));
  if (result.jk_StopHere == Ijk_Yield && result.whatNext == Dis_StopHere) {
    pause_translate(sb, at + result.len);
    result.jk_StopHere = Ijk_Boring;
  }
  return result;
}
