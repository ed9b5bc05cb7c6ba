/* SPDX-License-Identifier: Apache-2.0 */
/* Code that an engine may run outside its translator: `cpu_natively CASE`. Prints what a program
 * can see of it, which is the same everywhere. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu_device.h"
#include "cpu_spin.h"

static void natively(void (*work)(void *), void *data) {
  xpu_api_enter();
  xpu_natively(work, data);
  xpu_api_leave();
}

static void wait_ms(long ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) && errno == EINTR) continue;
}

/* ---- counts -----------------------------------------------------------------------------------
 */

static void spin_within(void *rounds) { spin((long)rounds); }

static int counts(void) {
  uint32_t kernel = device_start();
  spin(10);
  for (int i = 0; i < 5; i++) natively(spin_within, (void *)1000);
  device_launch(kernel);
  spin(20);
  return 0;
}

static void *spin_beside(void *rounds) {
  spin((long)rounds);
  return rounds;
}

/* Counts, unless it runs natively. */
static void spin_as_program(long rounds) {
  xpu_callback_enter();
  spin(rounds);
  xpu_callback_leave();
}

static void start_threads_within(void *result) {
  pthread_t threads[3];
  long sum = 0, got;
  for (long i = 0; i < 3; i++) {
    spin_as_program(i + 1);
    pthread_create(&threads[i], 0, spin_beside, (void *)(30 + i));
    sum += 2 * i;
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], (void **)&got), sum += got;
  *(long *)result = sum;
}

/* The sum of registers that a call keeps. */
static long kept_across(void (*work)(void *), void *data) {
  long sum;
  __asm__ volatile(
      "mov %%rsp, %%rbx\n"
      "sub $128, %%rsp\n"
      "and $-16, %%rsp\n"
      "mov $1000, %%r12; mov $200, %%r13; mov $30, %%r14; mov $4, %%r15\n"
      "call *%%rax\n"
      "mov %%rbx, %%rsp\n"
      "lea (%%r12, %%r13), %%rax\n"
      "add %%r14, %%rax; add %%r15, %%rax\n"
      : "=a"(sum), "+D"(work), "+S"(data)
      : "a"(natively)
      : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "memory", "cc");
  return sum;
}

static int threads(void) {
  uint32_t kernel = device_start();
  long result[2], kept = 0;
  spin(10);
  for (int i = 0; i < 2; i++) kept += kept_across(start_threads_within, &result[i]);
  device_launch(kernel);
  spin(20);
  printf("%ld %ld %ld\n", result[0], result[1], kept);
  return 0;
}

/* ---- memory, files and libraries --------------------------------------------------------------
 */

enum { PIECES = 4000, PIECE = 5000 };

static char *pieces[PIECES];

static void allocate_within(void *first) {
  for (int i = (int)(long)first; i < PIECES; i += 2) pieces[i] = memset(malloc(PIECE), i, PIECE);
  for (int i = (int)(long)first; i < PIECES; i += 6) free(pieces[i]), pieces[i] = NULL;
}

static void *allocate_beside(void *unused) {
  for (int i = 0; i < 20; i++) free(memset(malloc(1 << 20), i, 1 << 20));
  return unused;
}

static int heap(void) {
  pthread_t thread;
  pthread_create(&thread, 0, allocate_beside, 0);
  char *before = sbrk(0);
  natively(allocate_within, (void *)0);
  allocate_within((void *)1);
  pthread_join(thread, 0);
  int wrong = 0;
  for (int i = 0; i < PIECES; i++)
    for (int j = 0; pieces[i] && j < PIECE; j++) wrong += pieces[i][j] != (char)i;
  for (int i = 0; i < PIECES; i++) free(pieces[i]);
  char *at = sbrk(4096); /* the program's own heap still grows */
  if (at == (void *)-1 || at < before) wrong++;
  memset(at, 1, 4096);
  printf("%d wrong\n", wrong);
  return wrong;
}

/* What native code allocates lies where it does natively: in one heap. */
static int one_heap(void) {
  char *first = malloc(1);
  natively(allocate_within, (void *)0);
  allocate_within((void *)1);
  char *end = sbrk(0);
  int outside = 0;
  for (int i = 0; i < PIECES; i++) outside += pieces[i] && (pieces[i] < first || pieces[i] >= end);
  printf("%d outside\n", outside);
  return 0;
}

static void load_within(void *name) {
  double (*call)(double) = (double (*)(double))dlsym(dlopen(name, RTLD_NOW), "cbrt");
  printf("%g\n", call(27));
}

static int library(void) {
  natively(load_within, "libm.so.6");
  double (*call)(double) = (double (*)(double))dlsym(dlopen("libm.so.6", RTLD_NOW), "cbrt");
  printf("%g\n", call(8));
  return 0;
}

static void start_within(void *result) {
  char *line[] = {"sh", "-c", "echo child; exit 3", NULL};
  pid_t child;
  fflush(stdout);
  posix_spawn(&child, "/bin/sh", 0, 0, line, environ);
  waitpid(child, result, 0);
}

static int child(void) {
  int status = 0;
  natively(start_within, &status);
  printf("exit code %d\n", WEXITSTATUS(status));
  return 0;
}

/* ---- signals ----------------------------------------------------------------------------------
 */

static volatile sig_atomic_t seen;

static void note(int number) { seen = number; }

static void send_within(void *number) {
  kill(getpid(), (int)(long)number);
  wait_ms(30);
}

static int handled(void) {
  signal(SIGUSR1, note);
  natively(send_within, (void *)SIGUSR1);
  printf("seen %d\n", seen == SIGUSR1);
  return 0;
}

static int ended(void) {
  natively(send_within, (void *)SIGTERM);
  return 7;
}

static void set_within(void *unused) {
  (void)unused;
  struct sigaction action = {.sa_handler = note, .sa_flags = SA_ONSTACK};
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  sigaltstack(&stack, 0);
  sigaction(SIGUSR2, &action, 0);
  sigaction(SIGSEGV, &action, 0); /* and code of the translator still works */
  signal(SIGSEGV, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
}

static int handlers(void) {
  natively(set_within, 0);
  stack_t stack;
  struct sigaction pipe_action, fault_action;
  sigaltstack(0, &stack);
  sigaction(SIGPIPE, 0, &pipe_action);
  sigaction(SIGSEGV, 0, &fault_action);
  raise(SIGUSR2);
  printf("seen %d, stack %zu, ignored %d, default %d\n", seen == SIGUSR2, stack.ss_size,
         pipe_action.sa_handler == SIG_IGN, fault_action.sa_handler == SIG_DFL);
  return 0;
}

static sigjmp_buf back;

static void jump(int number) {
  (void)number;
  siglongjmp(back, 1);
}

static void repair(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  mprotect((void *)((unsigned long)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

static void write_within(void *at) { *(volatile int *)at = 5; }

static int fault(void) {
  natively(write_within, 0);
  return 7;
}

static void call_within(void *function) { ((void (*)(void))function)(); }

static int calls_zero(void) {
  natively(call_within, 0);
  return 7;
}

static int fault_handled(void) {
  signal(SIGSEGV, jump);
  if (!sigsetjmp(back, 1)) natively(write_within, 0);
  struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, 0);
  int *page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  natively(write_within, page);
  printf("repaired %d\n", *page);
  return 0;
}

static struct sigaction old_action;
static void (*old_handler)(int);

static void replace_within(void *unused) {
  (void)unused;
  struct sigaction action = {.sa_handler = note};
  sigaction(SIGSEGV, &action, &old_action);
  old_handler = signal(SIGTERM, note);
}

/* As LLVM does when it has crashed. */
static int fault_restored(void) {
  natively(replace_within, 0);
  printf("default %d %d\n", old_action.sa_handler == SIG_DFL, old_handler == SIG_DFL);
  sigaction(SIGSEGV, &old_action, 0);
  *(volatile int *)8 = 1;
  return 7;
}

static volatile pid_t handled_by;

static void note_thread(int number) {
  (void)number;
  handled_by = gettid();
}

static void *raise_beside(void *unused) {
  raise(SIGUSR1);
  printf("in its thread %d\n", handled_by == gettid());
  return unused;
}

typedef int thread_starter(pthread_t *, void *(*)(void *));

static void load_and_start_within(void *library) {
  pthread_t thread;
  thread_starter *start = (thread_starter *)dlsym(dlopen(library, RTLD_NOW), "start");
  start(&thread, raise_beside);
  pthread_join(thread, 0);
}

static char *argument;

static int signal_in_loaded_thread(void) {
  signal(SIGUSR1, note_thread);
  natively(load_and_start_within, argument);
  return 0;
}

/* ---- translated within ----------------------------------------------------------------------- */

static void spin_translated(void *rounds) { spin_as_program((long)rounds); }

/* From here on, nothing runs natively. */
static void handle_faults(void *unused) {
  (void)unused;
  xpu_callback_enter();
  signal(SIGBUS, note);
  xpu_callback_leave();
}

static long sum_within;

static void alternate_within(void *work_) {
  void (*work)(void *) = (void (*)(void *))work_;
  for (long i = 1; i < 4; i++) {
    spin_as_program(100); /* natively */
    xpu_translated(i == 2 ? work : spin_translated, (void *)i);
    sum_within += i;
  }
}

static int alternates(void *work) {
  uint32_t kernel = device_start();
  long kept = kept_across(alternate_within, work);
  device_launch(kernel);
  spin(20);
  printf("%ld %ld\n", sum_within, kept);
  return 0;
}

static int translated(void) { return alternates((void *)spin_translated); }

static int translated_for_good(void) { return alternates((void *)handle_faults); }

/* ---- beside other threads ---------------------------------------------------------------------
 */

static void wait_within(void *ms) { wait_ms((long)ms); }

static void *wait_beside(void *ms) {
  natively(wait_within, ms);
  return 0;
}

static void *exit_beside(void *unused) {
  (void)unused;
  wait_ms(50);
  exit(9);
}

static int exits(void) {
  pthread_t thread;
  pthread_create(&thread, 0, exit_beside, 0);
  natively(wait_within, (void *)60000);
  return 7;
}

static int forks(void) {
  pthread_t threads[4];
  int good = 0, status;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, wait_beside, (void *)(100l + 50 * i));
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (!child) {
      spin(100);
      natively(spin_within, (void *)100);
      _exit(4);
    }
    waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 4;
    wait_ms(5);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  printf("%d good\n", good);
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {
      {"counts", counts},
      {"threads", threads},
      {"translated", translated},
      {"translated-for-good", translated_for_good},
      {"heap", heap},
      {"one-heap", one_heap},
      {"library", library},
      {"child", child},
      {"handled", handled},
      {"ended", ended},
      {"handlers", handlers},
      {"fault", fault},
      {"calls-zero", calls_zero},
      {"fault-handled", fault_handled},
      {"fault-restored", fault_restored},
      {"signal-in-loaded-thread", signal_in_loaded_thread},
      {"exits", exits},
      {"forks", forks},
  };
  setvbuf(stdout, 0, _IOLBF, 0);
  if (argc > 2) argument = argv[2];
  for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(argv[1], cases[i].name)) return cases[i].run();
  return 2;
}
