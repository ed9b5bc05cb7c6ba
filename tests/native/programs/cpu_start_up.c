/* SPDX-License-Identifier: Apache-2.0 */
/* What a program in C may do while its main thread runs natively: `cpu_start_up CASE`. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned long work;
static volatile int seen;

static void show(int status) {
  if (WIFEXITED(status))
    printf("exit code %d\n", WEXITSTATUS(status));
  else
    printf("signal %d\n", WTERMSIG(status));
}

static void show_child(void) {
  int status = 0;
  wait(&status);
  show(status);
}

/* ---- other threads stop the main thread --------------------------------------------------------
 */

static void *end_process(void *unused) {
  usleep(20000);
  _exit(13);
  return unused;
}

static void ends_elsewhere(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, end_process, NULL);
  for (;;) work++;
}

static void *fork_often(void *unused) {
  for (int i = 0; i < 10; i++) {
    if (fork() == 0) _exit(i);
    show_child();
  }
  seen = 1;
  return unused;
}

static void forks_elsewhere(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, fork_often, NULL);
  while (!seen) work++;
  pthread_join(thread, NULL);
}

/* ---- signals -----------------------------------------------------------------------------------
 */

static void clears_handlers(void) {
  struct clone_args arguments = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
  if (syscall(SYS_clone3, &arguments, sizeof arguments) == 0) {
    struct sigaction old; /* a query must not fault, as nothing handles faults here */
    sigaction(SIGHUP, NULL, &old);
    _exit(getppid() > 0 ? 21 : 22);
  }
  show_child();
}

static void count(int number) {
  (void)number;
  seen++;
}

static void long_breakpoint(void) {
  signal(SIGTRAP, count);
  __asm__ volatile(".byte 0xcd, 3; nop");
  printf("%d\n", seen);
}

/* A function begins right behind the call that returns from a handler. */
long fourth(long a, long b, long c, long d);
extern const char restore[];
__asm__(
    ".text\n"
    "restore:\n"
    "  mov $15, %eax\n"
    "  syscall\n"
    "fourth:\n"
    "  mov %rcx, %rax\n"
    "  ret\n");

static void skip(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
  getppid();
}

static void own_restorer(void) {
  enum { HAS_RESTORER = 0x04000000 };
  const struct {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    const char *restorer;
    unsigned long mask;
  } action = {skip, SA_SIGINFO | HAS_RESTORER, restore, 0};
  syscall(SYS_rt_sigaction, SIGILL, &action, NULL, sizeof action.mask);
  __asm__ volatile("ud2");
  printf("%ld\n", fourth(1, 2, 3, 4));
}

/* ---- tracers and filters -----------------------------------------------------------------------
 */

static void trace(bool faults) {
  int status, stops = 0;
  const pid_t child = fork();
  if (child == 0) {
    if (faults) __asm__ volatile("ud2");
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    for (int i = 0; i < 10; i++) getppid();
    _exit(3);
  }
  while (waitpid(child, &status, 0) > 0 && WIFSTOPPED(status) && stops++ < 100)
    ptrace(PTRACE_CONT, child, NULL, NULL);
  printf("%d stops\n", stops);
  show(status);
}

static void traced(void) { trace(false); }

/* The call behind a fault is made under DynamoRIO. */
static void traced_after_fault(void) {
  const struct sigaction action = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
  sigaction(SIGILL, &action, NULL);
  trace(true);
}

static void answer(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4243;
}

static void *trap_in_all_threads(void *unused) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  seen = 1;
  return unused;
}

static void filtered_elsewhere(void) {
  const struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
  pthread_t thread;
  sigaction(SIGSYS, &action, NULL);
  pthread_create(&thread, NULL, trap_in_all_threads, NULL);
  while (!seen) work++;
  printf("%d\n", getppid());
  pthread_join(thread, NULL);
}

/* ---- registers ---------------------------------------------------------------------------------
 */

static void loads_gs(void) {
  unsigned short gs;
  __asm__ volatile("mov %%gs, %0; mov %0, %%gs" : "=r"(gs));
  printf("%d\n", gs);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {
      {"ends_elsewhere", ends_elsewhere},
      {"forks_elsewhere", forks_elsewhere},
      {"clears_handlers", clears_handlers},
      {"long_breakpoint", long_breakpoint},
      {"own_restorer", own_restorer},
      {"traced", traced},
      {"traced_after_fault", traced_after_fault},
      {"filtered_elsewhere", filtered_elsewhere},
      {"loads_gs", loads_gs},
  };
  setvbuf(stdout, NULL, _IONBF, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (argc > 1 && !strcmp(argv[1], cases[i].name)) cases[i].run();
  return 0;
}
