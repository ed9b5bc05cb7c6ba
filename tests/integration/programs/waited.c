/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that a program waits for, or that interrupt its calls: `waited CASE`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static sigset_t blocked;

static void handle(int number) {
  (void)number;
  handled++;
}

static int wait_for_one(void) {
  int number = 0;
  sigwait(&blocked, &number);
  return number;
}

static void *wait_in_thread(void *number) {
  *(int *)number = wait_for_one();
  return NULL;
}

static void wait_once(void) {
  pthread_kill(pthread_self(), SIGUSR1);
  printf("waited for %d\n", wait_for_one());
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  printf("handled %d\n", handled);
  raise(SIGUSR1);
  printf("handled %d\n", handled);
}

static void wait_for_queued(void) {
  siginfo_t info;
  for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i});
  for (int i = 0; i < 3; i++) {
    sigwaitinfo(&blocked, &info);
    printf("%d of this process %d\n", info.si_value.sival_int, info.si_pid == getpid());
  }
}

static void wait_in_vain(void) {
  const struct timespec soon = {0, 10000000};
  printf("%d\n", sigtimedwait(&blocked, NULL, &soon));
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  kill(getpid(), SIGUSR1);
  printf("handled %d\n", handled);
}

static void show_pending(void) {
  sigset_t pending;
  kill(getpid(), SIGTERM);
  sigpending(&pending);
  printf("pending %d %d\n", sigismember(&pending, SIGTERM), sigismember(&pending, SIGUSR1));
}

/* The signal comes while this thread computes. */
static void let_thread_wait(void) {
  pthread_t thread;
  volatile int number = 0;
  pthread_create(&thread, NULL, wait_in_thread, (void *)&number);
  if (!fork()) {
    usleep(200000);
    kill(getppid(), SIGTERM);
    usleep(200000); /* SIGCHLD may overtake it */
    _exit(0);
  }
  while (!number) continue;
  pthread_join(thread, NULL);
  printf("the thread got %d\n", number);
}

static void let_thread_wait_later(void) {
  pthread_t thread;
  int number = 0;
  kill(getpid(), SIGTERM);
  pthread_create(&thread, NULL, wait_in_thread, &number);
  pthread_join(thread, NULL);
  printf("the thread got %d\n", number);
}

static void wait_for_child(void) {
  const pid_t child = fork();
  siginfo_t info;
  if (!child) _exit(5);
  usleep(100000);
  sigwaitinfo(&blocked, &info);
  printf("child %d, %d\n", info.si_pid == child, info.si_status);
  printf("waited %d\n", wait(NULL) == child);
}

static void set_again(void) {
  const struct itimerval soon = {.it_value = {0, 50000}};
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  alarm(100);
  setitimer(ITIMER_REAL, &soon, NULL);
  while (!handled) pause();
  printf("handled %d\n", handled);
}

static void show_rest(void) {
  struct itimerval rest;
  alarm(100);
  getitimer(ITIMER_REAL, &rest);
  printf("%ld\n", (long)rest.it_value.tv_sec / 50);
  printf("%u\n", alarm(0) / 50);
  getitimer(ITIMER_REAL, &rest);
  printf("%ld\n", (long)rest.it_value.tv_sec);
}

static void suspend(void) {
  sigset_t none;
  sigemptyset(&none);
  for (int i = 1; i <= 3; i++) {
    kill(getpid(), SIGUSR1);
    printf("before %d, ", handled);
    sigsuspend(&none);
    printf("handled %d\n", handled);
  }
  if (!fork()) _exit(0);
  usleep(100000);
  sigsuspend(&none);
  printf("child %d\n", wait(NULL) > 0);
}

/* ---- calls that wait ---------------------------------------------------------------------------
 */

enum { CALLS = 5 };
static int ends[2];

static void prepare(int call) {
  if (call == 2) socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  if (call == 3) flock(ends[0] = open("locked", O_CREAT | O_RDWR, 0600), LOCK_EX);
  if (call < 2 && pipe(ends)) exit(9);
}

static long make(int call) {
  static char bytes[100000];
  switch (call) {
    case 0:
      return read(ends[0], bytes, 1);
    case 1:
      while (write(ends[1], bytes, sizeof bytes) > 0) continue;
      return -1;
    case 2:
      return recv(ends[0], bytes, 1, 0);
    case 3:
      return flock(open("locked", O_RDWR), LOCK_EX);
    default:
      return open("fifo", O_RDONLY);
  }
}

static void handle_thrice(int number) {
  (void)number;
  if (++handled == 3) _exit(4);
}

/* By a timer, once or thrice. */
static void interrupt(int call, int flags) {
  const struct sigaction action = {.sa_handler = handle_thrice, .sa_flags = flags};
  const struct itimerval timer = {{0, 30000}, {0, 30000}}, none = {0};
  handled = 0;
  prepare(call);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
  const long result = make(call);
  const int error = errno;
  setitimer(ITIMER_REAL, &none, NULL);
  printf("call %d: %ld %d\n", call, result, error == EINTR);
}

static void show_interrupted(void) {
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  mkfifo("fifo", 0600);
  for (int call = 0; call < CALLS; call++) interrupt(call, 0);
}

static void show_restarted(void) {
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  signal(SIGCHLD, SIG_DFL);
  mkfifo("fifo", 0600);
  for (int call = 0; call < CALLS; call++) {
    int status = 0;
    fflush(stdout);
    if (!fork()) {
      interrupt(call, SA_RESTART);
      exit(0);
    }
    wait(&status);
    printf("call %d: %x\n", call, status);
  }
}

/* From another process, in the middle of whatever it computes. Their numbers are those of faults,
 * and of what the kernel sends for a call. */
static volatile int *shared;

static void count(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  *shared += info->si_code == SI_USER && info->si_pid != getpid();
}

static void handle_sent(void) {
  enum { EACH = 15, PAUSE_US = 20000, STEP_US = 1000 };
  const int numbers[] = {SIGABRT, SIGPIPE, SIGXCPU, SIGBUS, SIGSEGV, SIGFPE};
  const int n = sizeof numbers / sizeof *numbers;
  const struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
  volatile long turns = 0;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < n; i++) sigaction(numbers[i], &action, NULL);
  if (!fork()) {
    for (int i = 0; i < n * EACH; i++) {
      usleep(PAUSE_US);
      kill(getppid(), numbers[i % n]);
      while (*shared == i) usleep(STEP_US);
    }
    _exit(0);
  }
  while (*shared < n * EACH) turns++;
  wait(NULL);
  printf("handled %d\n", *shared);
}

/* As a server does. */
static void wait_again_and_again(void) {
  enum { ROUNDS = 600 };
  int sum = 0;
  for (int i = 0; i < ROUNDS; i++) {
    const int number = i % 10 ? SIGUSR1 : SIGRTMIN + 2;
    kill(getpid(), number);
    sum += wait_for_one() == number;
  }
  kill(getpid(), SIGUSR1);
  signal(SIGUSR1, handle);
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  for (int i = 0; i < 2; i++) raise(SIGUSR1);
  printf("waited for %d, handled %d\n", sum, handled);
}

static void *wait_for_all(void *set) {
  int number = 0;
  sigwait(set, &number);
  printf("waited for %d\n", number);
  fflush(stdout);
  sigwait(set, &number); /* until the program ends */
  return NULL;
}

/* As programs do that have a thread for signals. The thread must be stopped for a fork and at the
 * end. */
static void let_thread_wait_for_all(void) {
  sigset_t all;
  pthread_t thread;
  int status;
  sigfillset(&all);
  sigdelset(&all, SIGCHLD);
  sigprocmask(SIG_BLOCK, &all, NULL);
  pthread_create(&thread, NULL, wait_for_all, &all);
  usleep(100000);
  const pid_t child = fork();
  if (!child) _exit(3);
  waitpid(child, &status, 0);
  kill(getpid(), SIGTERM);
  usleep(300000);
  printf("child %x\n", (unsigned)status);
}

/* What is pending where a program executes another is pending there. */
static void execute_another(void) {
  raise(SIGUSR1);
  raise(SIGRTMIN + 2);
  execl("/nowhere", "nowhere", (char *)0);
  execl("/proc/self/exe", "waited", "executed", (char *)0);
}

static void show_executed(void) {
  const struct timespec soon = {0, 10000000};
  sigset_t pending;
  sigpending(&pending);
  printf("pending %d %d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGTERM),
         sigismember(&pending, SIGRTMIN + 2));
  raise(SIGTERM);
  for (int i = 0; i < 4; i++) printf("waited for %d\n", sigtimedwait(&blocked, NULL, &soon));
}

static void spawn_another(void) {
  char *const line[] = {"waited", "executed", NULL};
  pid_t child;
  int status = 0;
  if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, line, environ) == 0)
    waitpid(child, &status, 0);
  printf("%x\n", (unsigned)status);
}

/* Ended while they begin, or are about to execute a program. */
static void end_children(void (*run)(void)) {
  enum { CHILDREN = 60, STEP = 30 };
  int ended = 0, status;
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  signal(SIGCHLD, SIG_DFL);
  for (int i = 0; i < CHILDREN; i++) {
    const pid_t child = fork();
    if (!child) run();
    usleep(i * STEP);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    ended += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
  }
  printf("ended %d\n", ended);
}

static void sleep_one_second(void) {
  sleep(1);
  _exit(0);
}

static void execute_sleep(void) {
  execlp("sleep", "sleep", "1", (char *)0);
  _exit(127);
}

static void end_forked(void) { end_children(sleep_one_second); }
static void end_executing(void) { end_children(execute_sleep); }

/* A child sends a signal, and ends, during the call that follows. */
static void have_child(int number) {
  if (fork()) return;
  usleep(100000);
  kill(getppid(), number);
  _exit(0);
}

static void tell(const char *call, int result) {
  printf("%s: %d %s, handled %d\n", call, result, result < 0 ? strerror(errno) : "", handled);
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

static int poll_for(int milliseconds) {
  int ends[2];
  if (pipe(ends)) return -1;
  struct pollfd file = {.fd = ends[0], .events = POLLIN};
  const int result = poll(&file, 1, milliseconds);
  close(ends[0]), close(ends[1]);
  return result;
}

static void poll_while(int number) {
  have_child(number);
  tell("poll", poll_for(500));
}

/* By signals that are blocked or dropped; handled ones interrupt. */
static void show_undisturbed(void) {
  sem_t never;
  sigset_t none, winch;
  struct timespec until, span = {0, 500000000};
  sigemptyset(&none), sigemptyset(&winch), sigaddset(&winch, SIGWINCH);
  poll_while(SIGUSR1);
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  sem_init(&never, 0, 0);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec++;
  have_child(0), tell("sem_timedwait", sem_timedwait(&never, &until));
  have_child(0), tell("poll", poll_for(500));
  have_child(0), tell("ppoll", ppoll(NULL, 0, &span, &blocked));
  have_child(0), tell("select", select(0, NULL, NULL, NULL, &(struct timeval){0, 500000}));
  have_child(0), tell("epoll_wait", epoll_wait(epoll_create1(0), &(struct epoll_event){0}, 1, 500));
  have_child(0), tell("nanosleep", nanosleep(&span, NULL));
  have_child(0), tell("sigtimedwait", sigtimedwait(&winch, NULL, &span));
  have_child(0), alarm(1), tell("pause", pause());
  have_child(0), alarm(1), tell("sigsuspend", sigsuspend(&none));
  signal(SIGUSR1, SIG_IGN), poll_while(SIGUSR1);
  signal(SIGUSR1, handle), poll_while(SIGUSR1);
}

static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
    {"once", wait_once},
    {"queued", wait_for_queued},
    {"in-vain", wait_in_vain},
    {"pending", show_pending},
    {"thread", let_thread_wait},
    {"later-thread", let_thread_wait_later},
    {"all", let_thread_wait_for_all},
    {"child", wait_for_child},
    {"suspended", suspend},
    {"interrupted", show_interrupted},
    {"restarted", show_restarted},
    {"set-again", set_again},
    {"rest", show_rest},
    {"sent", handle_sent},
    {"again", wait_again_and_again},
    {"execute", execute_another},
    {"executed", show_executed},
    {"spawn", spawn_another},
    {"forked", end_forked},
    {"executing", end_executing},
    {"undisturbed", show_undisturbed},
};

int main(int argc, char **argv) {
  const int numbers[] = {SIGUSR1, SIGTERM, SIGCHLD, SIGALRM, SIGRTMIN + 2};
  sigemptyset(&blocked);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    sigaddset(&blocked, numbers[i]);
    if (numbers[i] != SIGTERM) signal(numbers[i], handle);
  }
  if (argc > 1 && strcmp(argv[1], "executed") != 0) sigprocmask(SIG_BLOCK, &blocked, NULL);
  for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(argv[1], cases[i].name)) cases[i].run();
  return 0;
}
