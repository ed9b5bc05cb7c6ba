/* SPDX-License-Identifier: Apache-2.0 */
/* Registers the client with DynamoRIO. */
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "client.h"
#include "images_left_alone.h"
#include "system_call.h"

static void *mutex;
static bool root; /* the process started by the user */

void lock(void) { dr_mutex_lock(mutex); }
void unlock(void) { dr_mutex_unlock(mutex); }

static void end_of_process(void) {
  lock();
  if ((root && !window_excludes_process()) || stream_is_open()) {
    threads_mark_all();
    cut_last();
  }
  unlock();
}

/* ---- images ---------------------------------------------------------------------------------- */

static void module_loaded(void *drcontext, const module_data_t *module, bool loaded) {
  (void)loaded;
  lock();
  image_loaded(module, thread_is_off(drcontext));
  boundary_loaded(module);
  unlock();
  if (module->full_path) natively_loaded(module->full_path);
}

static void module_unloaded(void *drcontext, const module_data_t *module) {
  (void)drcontext;
  lock();
  image_unloaded(module);
  boundary_unloaded(module);
  start_up_unloaded(module->start, module->end);
  unlock();
}

/* ---- threads and programs that the program starts -------------------------------------------- */

/* Of calls that it need not see DynamoRIO goes on with each that a signal has interrupted, also
 * where the program's handler has no SA_RESTART. */
static bool is_interrupted(int number) {
  switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwritev2:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_io_uring_enter:
    case SYS_creat:
    case SYS_openat2:
    case SYS_open:
    case SYS_openat:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_ioctl:
    case SYS_futex:
    case SYS_msgsnd:
    case SYS_msgrcv:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_splice:
    case SYS_sendfile:
    case SYS_getrandom:
      return true;
    default:
      return false;
  }
}

static bool wanted(void *drcontext, int number) {
  (void)drcontext;
  switch (number) {
    case SYS_exit:
    case SYS_mmap:
    case SYS_pread64:
    case SYS_clone:
    case SYS_clone3:
    case SYS_vfork:
    case SYS_fork:
    case SYS_execve:
    case SYS_execveat:
    case SYS_kill:
    case SYS_tgkill:
    case SYS_close_range:
    case SYS_prctl:
    case SYS_rt_sigaction:
    case SYS_seccomp:
    case SYS_arch_prctl:
    case SYS_ptrace:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigpending:
    case SYS_rt_sigsuspend:
    case SYS_signalfd:
    case SYS_signalfd4:
    case SYS_setitimer:
    case SYS_getitimer:
    case SYS_alarm:
    case SYS_sigaltstack:
      return true;
    default:
      return is_interrupted(number) || undisturbed_wants(number);
  }
}

/* Programs started by the device runtime (compilers, linkers) are not the program's work and run
 * natively, as do those that the client cannot follow. True: the call was made here and failed. */
static bool runs_natively(void *drcontext) {
  long a[3];
  for (int i = 0; i < 3; i++) a[i] = (long)dr_syscall_get_param(drcontext, i);
  const char *reason = NULL;
  if (!thread_is_off(drcontext) && !(reason = image_left_alone((const char *)a[0]))) return false;
  lock();
  if (root && reason) stream_runs_natively(reason);
  unlock();
  dr_syscall_set_result(drcontext, (reg_t)xp_system_call(SYS_execve, a[0], a[1], a[2], 0));
  return true;
}

static struct stat tool; /* DynamoRIO's file, which is the process's executable for the kernel */

enum { HERE = -100 };

static bool find(long folder, long path, long flags, struct stat *file) {
  return xp_system_call(SYS_newfstatat, folder, path, (long)file, flags) == 0;
}

static bool is_tool(const struct stat *file) {
  return file->st_dev == tool.st_dev && file->st_ino == tool.st_ino;
}

bool names_own_file(long folder, long path, const struct stat *file) {
  enum { NOT_THROUGH_LINK = 0x100 };
  struct stat link;
  return is_tool(file) && find(folder, path, NOT_THROUGH_LINK, &link) && S_ISLNK(link.st_mode);
}

static bool find_own_file(char *path, size_t size) {
  module_data_t *main = dr_get_main_module();
  if (!main) return false;
  dr_snprintf(path, size, "%s", main->full_path ? main->full_path : "");
  dr_free_module_data(main);
  return path[0];
}

/* True: the call was made here. Not where it asks for the link, or to write, which the kernel
 * refuses for the program's file and for DynamoRIO's. */
static bool opens_own_file(void *drcontext, bool in_folder) {
  enum { WRITES = 03, TRUNCATES = 01000, NOT_THROUGH_LINK = 0400000 };
  long a[4] = {HERE};
  char own[PATH_MAX];
  struct stat file;
  for (int i = in_folder ? 0 : 1; i < 4; i++)
    a[i] = (long)dr_syscall_get_param(drcontext, in_folder ? i : i - 1);
  if (a[2] & (WRITES | TRUNCATES | NOT_THROUGH_LINK)) return false;
  if (!find(a[0], a[1], 0, &file) || !names_own_file(a[0], a[1], &file) ||
      !find_own_file(own, sizeof own))
    return false;
  dr_syscall_set_result(drcontext, (reg_t)xp_system_call(SYS_openat, a[0], (long)own, a[2], a[3]));
  return true;
}

/* What the program gave in place of the path that we set, while it executes a program. */
static struct {
  void *drcontext;
  reg_t path;
} asked;

/* The kernel's name for a process's executable means DynamoRIO's own file here. DynamoRIO itself
 * handles only some of these names. */
static void execute_what_is_meant(void *drcontext) {
  static char own[PATH_MAX];
  struct stat that;
  long path = (long)dr_syscall_get_param(drcontext, 0);
  if (!find(HERE, path, 0, &that) || !is_tool(&that) || !find_own_file(own, sizeof own)) return;
  asked.drcontext = drcontext;
  asked.path = (reg_t)path;
  dr_syscall_set_param(drcontext, 0, (reg_t)own);
}

/* A call that fails leaves all as it was. */
static void not_executed(void *drcontext) {
  dr_mcontext_t registers = {.size = sizeof registers, .flags = DR_MC_INTEGER};
  ignored_after_failed_exec(drcontext);
  if (asked.drcontext != drcontext) return;
  asked.drcontext = NULL;
  dr_get_mcontext(drcontext, &registers);
  registers.xdi = asked.path;
  dr_set_mcontext(drcontext, &registers);
}

/* A process that kills itself has no exit event, but ends here too. */
static void before_kill(void *drcontext, int number) {
  enum { KILL = 9 };
  void **others = NULL;
  uint n_others = 0;
  bool is_kill = (int)dr_syscall_get_param(drcontext, number == SYS_kill ? 1 : 2) == KILL;
  if (!is_kill || (int)dr_syscall_get_param(drcontext, 0) != (int)dr_get_process_id()) return;
  dr_suspend_all_other_threads(&others, &n_others, NULL);
  end_of_process();
  if (others) dr_resume_all_other_threads(others, n_others);
}

/* Kits of 2026 visit every number of the range, which takes minutes for close_range(3, ~0). No
 * descriptor reaches fs.nr_open, which is 2^20 unless root raises it. */
static void before_close_range(void *drcontext) {
  enum { NR_OPEN = 1 << 20 };
  if ((uint)dr_syscall_get_param(drcontext, 0) >= NR_OPEN) return;
  if ((uint)dr_syscall_get_param(drcontext, 1) >= NR_OPEN)
    dr_syscall_set_param(drcontext, 1, NR_OPEN - 1);
}

/* DynamoRIO combines the program's interval timers with its own, of which there are none. It loses
 * the signal of a timer that was set again while it ran, or gives it late, and takes no time to be
 * left of one that is stopped. */
static void call_timer(void *drcontext, int number) {
  long a[3];
  for (int i = 0; i < 3; i++) a[i] = (long)dr_syscall_get_param(drcontext, i);
  dr_syscall_set_result(drcontext, (reg_t)xp_system_call(number, a[0], a[1], a[2], 0));
}

static bool before_call(void *drcontext, int number) {
  start_up_before_call(drcontext, number, (long)dr_syscall_get_param(drcontext, 0));
  unwritable_before_call(drcontext, number);
  terminal_before_call(drcontext, number);
  if (number != SYS_rt_sigtimedwait) undisturbed_before_call(drcontext, number);
  switch (number) {
    case SYS_open:
      return !opens_own_file(drcontext, false);
    case SYS_openat:
      return !opens_own_file(drcontext, true);
    case SYS_exit:
      threads_await_births(drcontext);
      return true;
    case SYS_setitimer:
    case SYS_getitimer:
    case SYS_alarm:
      call_timer(drcontext, number);
      return false;
    case SYS_rt_sigprocmask:
      waited_mask(drcontext, (int)dr_syscall_get_param(drcontext, 0),
                  (const void *)dr_syscall_get_param(drcontext, 1),
                  (size_t)dr_syscall_get_param(drcontext, 3));
      return true;
    case SYS_signalfd:
    case SYS_signalfd4:
      waited_descriptor((const void *)dr_syscall_get_param(drcontext, 1),
                        (size_t)dr_syscall_get_param(drcontext, 2));
      return true;
    case SYS_rt_sigsuspend:
      waited_suspends(drcontext);
      undisturbed_before_call(drcontext, SYS_ppoll);
      return true;
    case SYS_rt_sigtimedwait:
      if (waited_answers(drcontext, (const void *)dr_syscall_get_param(drcontext, 0),
                         (void *)dr_syscall_get_param(drcontext, 1),
                         (size_t)dr_syscall_get_param(drcontext, 3)))
        return false;
      undisturbed_before_call(drcontext, number);
      return true;
    case SYS_close_range:
      before_close_range(drcontext);
      return true;
    case SYS_execve:
      execute_what_is_meant(drcontext);
      ignored_before_exec(drcontext);
      waited_before_exec(drcontext);
      if (!runs_natively(drcontext)) return true;
      not_executed(drcontext);
      return false;
    case SYS_execveat:
      ignored_before_exec(drcontext);
      waited_before_exec(drcontext);
      return true;
    case SYS_prctl:
      start_up_is_told((uint64_t)dr_syscall_get_param(drcontext, 0),
                       (xpu_start_up *)dr_syscall_get_param(drcontext, 1));
      return true;
    case SYS_rt_sigaction:
      ignored_set(drcontext, (int)dr_syscall_get_param(drcontext, 0),
                  (const void *)dr_syscall_get_param(drcontext, 1),
                  (size_t)dr_syscall_get_param(drcontext, 3));
      if (!thread_is_off(drcontext))
        natively_sets_handler((int)dr_syscall_get_param(drcontext, 0),
                              (const void *)dr_syscall_get_param(drcontext, 1));
      return true;
    case SYS_kill:
    case SYS_tgkill:
      before_kill(drcontext, number);
      return true;
    case SYS_fork:
    case SYS_clone:
    case SYS_clone3:
    case SYS_vfork:
      ignored_before_child(drcontext);
      creation_begins(drcontext, number);
      return true;
    default:
      return true;
  }
}

static void after_call(void *drcontext, int number) {
  waited_release(drcontext);
  if (number == SYS_rt_sigaction) signals_changed((int)dr_syscall_get_param(drcontext, 0) - 1);
  if (number == SYS_mmap) shared_code_after_mmap(drcontext);
  if (number == SYS_sigaltstack)
    signal_stack_after_call(drcontext, (void *)dr_syscall_get_param(drcontext, 1));
  unwritable_after_call(drcontext, number);
  if (number == SYS_execve) not_executed(drcontext);
  if (number == SYS_execveat) ignored_after_failed_exec(drcontext);
  if (number == SYS_rt_sigsuspend || number == SYS_ppoll) waited_after_suspension(drcontext);
  if (number == SYS_rt_sigtimedwait)
    waited_after_wait(drcontext, (void *)dr_syscall_get_param(drcontext, 1));
  if (number == SYS_rt_sigpending)
    waited_after_pending(drcontext, (void *)dr_syscall_get_param(drcontext, 0),
                         (size_t)dr_syscall_get_param(drcontext, 1));
  if (number == SYS_clone || number == SYS_clone3 || number == SYS_vfork || number == SYS_fork)
    creation_ended(drcontext, number);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void forked(void *drcontext) {
  root = false;
  lock();
  stream_forget();
  threads_forked(drcontext);
  cut_forked();
  unlock();
  waited_forked();
  creations_forked();
  start_up_forked(drcontext);
  waited_release(drcontext);
}

DR_EXPORT void dr_client_main(client_id_t id, int argc, const char *argv[]) {
  (void)id;
  mutex = dr_mutex_create();
  xp_system_call(SYS_stat, (long)"/proc/self/exe", (long)&tool, 0, 0);
  environment_mend();
  ignored_init();
  waited_init();
  options_read(argc > 1 ? argv[1] : engine_environment("DYNAMORIO_CONFIGDIR"));
  root = (long)dr_get_parent_id() == options.supervisor;
  layout_init();
  natively_init();
  kernels_init();
  start_up_init();
  uppers_init();
  window_init();
  if (!mutex || !threads_init()) return; /* the program continues without vectors */
  dr_register_exit_event(end_of_process);
  dr_register_fork_init_event(forked);
  dr_register_module_load_event(module_loaded);
  dr_register_module_unload_event(module_unloaded);
  dr_register_thread_init_event(thread_starts);
  dr_register_thread_exit_event(thread_ends);
  dr_register_filter_syscall_event(wanted);
  dr_register_pre_syscall_event(before_call);
  dr_register_post_syscall_event(after_call);
  dr_register_bb_event(instrument);
  dr_register_trace_event(instrument_trace);
  dr_register_end_trace_event(extend_trace);
  dr_register_signal_event(count_until_fault);
  dr_register_restore_state_ex_event(thread_restores);
}
