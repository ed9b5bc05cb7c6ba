/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Registers the tool with Valgrind's core. */
#include "data_segment.h"
#include "executables.h"
#include "faults.h"
#include "instrument.h"
#include "left_signals.h"
#include "native_kernels.h"
#include "program_name.h"
#include "pub_tool_basics.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "tool.h"
#include "translations.h"
#include "unnoticed.h"
#include "vfork.h"
#include "xpuprof/boundary.h"

static Bool root;

Bool process_is_root(void) { return root; }

/* Linux names a process after the file that it executes, which is the tool's. */
static void take_program_name(void) {
  const HChar *path = VG_(args_the_exename), *slash = VG_(strrchr)(path, '/');
  xp_system_call(__NR_prctl, VKI_PR_SET_NAME, (long)(slash ? slash + 1 : path), 0, 0);
}

static void post_options(void) {
  take_program_name();
  root = options.supervisor == 0 || VG_(getppid)() == options.supervisor;
  log_hide();
  threads_init();
  kernels_init();
  window_init();
}

static void fini(Int exit_code) {
  (void)exit_code;
  if (stream_is_open() || (root && !window_excludes_process())) cut_last();
  stores_save();
  log_drop_empty();
}

static Bool client_request(ThreadId tid, UWord *arguments, UWord *result) {
  switch (arguments[0]) {
    case XPU_CR_CUT:
      cut(arguments[1]);
      stores_release();
      break;
    case XPU_CR_API_ENTER:
      thread_enter(tid, False);
      break;
    case XPU_CR_CALLBACK_ENTER:
      thread_enter(tid, True);
      break;
    case XPU_CR_API_LEAVE:
    case XPU_CR_CALLBACK_LEAVE:
      thread_leave(tid);
      break;
    case XPU_CR_WINDOW:
      window_turn(arguments[1] != 0, arguments[2] != 0);
      break;
    case XPU_CR_KERNELS:
      kernels_loaded(arguments[1] != 0);
      break;
    default:
      return False;
  }
  *result = 0;
  return True;
}

static void before_call(ThreadId tid, UInt call, UWord *arguments, UInt n) {
  (void)n;
  sandbox_watch(call, arguments);
  arguments_watch(call, arguments);
  vfork_before_call(tid, call, arguments);
  data_segment_before_call(call, arguments);
}

static void after_call(ThreadId tid, UInt call, UWord *arguments, UInt n, SysRes result) {
  (void)tid, (void)n;
  vfork_after_call(result);
  left_signals_after_call(call, arguments);
  faults_after_call(call, arguments);
}

static void forked_child(ThreadId tid) {
  root = False;
  vfork_forked();
  stream_forget();
  threads_forked(tid);
  cut_forked();
  stores_forked();
}

static Bool parse(const HChar *argument) {
  if (program_name_take(argument)) return True;
  return argument[0] == '-' && argument[1] == '-' && option_take(argument + 2);
}

static void usage(void) {
  VG_(printf)
  ("    --xpuprof-dir=DIR         execution folder; cpu.xpt goes to DIR/<host>-<pid>/\n"
   "    --program-name=NAME       what the program finds as argv[0], if its path is not shorter\n"
   "    --supervisor=PID          the process whose parent is PID always gets a part\n"
   "    --memory=no|yes           LRU stack distances of data accesses, by slice and thread\n"
   "    --include-image=GLOB      count only these images (path, or file name); repeatable\n"
   "    --exclude-image=GLOB      never count these images; repeatable\n"
   "    --main-image-only=no|yes  count only the program's own executable\n"
   "    --routine=GLOB            count only blocks that start in these routines; repeatable\n"
   "    --count-thread=N          count only these logical threads; repeatable\n"
   "    --process=GLOB            count only processes of these programs; repeatable\n"
   "    --window-closed=no|yes    count nothing before the program's window opens\n"
   "    --translations=DIR        keeps translations here for later runs\n");
}

static void nothing_more(void) {}

static void first_instruction(ThreadId tid) {
  static Bool started;
  if (!started) program_name_give(tid);
  started = True;
  thread_first_instruction(tid);
}

static void pre_options(void) {
  VG_(details_name)("xpuprof");
  VG_(details_version)(XPUPROF_VERSION);
  VG_(details_description)("basic-block vectors of slices");
  VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the xpuprof authors.");
  VG_(details_bug_reports_to)("the xpuprof project");
  VG_(details_avg_translation_sizeB)(220);
  /* VEX's chasing merges a block with a conditional successor whose instructions then run
   * guarded: they would be counted whether they take effect or not. */
  VG_(clo_vex_control).guest_chase = False;
  /* Nothing here unwinds stacks, and programs that handle faults get more (faults.c). */
  VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdSpAtMemAccess;
  VG_(basic_tool_funcs)(post_options, instrument, fini);
  VG_(needs_command_line_options)(parse, usage, nothing_more);
  VG_(needs_client_requests)(client_request);
  VG_(needs_syscall_wrapper)(before_call, after_call);
  VG_(track_start_client_code)(thread_runs);
  VG_(track_stop_client_code)(kernels_left);
  VG_(track_post_reg_write)(unnoticed_after_request);
  VG_(track_pre_thread_ll_create)(thread_created);
  VG_(track_pre_thread_first_insn)(first_instruction);
  VG_(track_pre_thread_ll_exit)(thread_exits);
  VG_(atfork)(NULL, NULL, forked_child);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
