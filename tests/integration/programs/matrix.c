/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do to themselves; the first argument chooses the case. Prints only what must be
 * equal with and without a profiler. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;
static char **arguments;

static int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int end_with_code(void) { return atoi(arguments[0]); }

static int end_by_signal(void) {
  puts("before");
  fflush(stdout);
  raise(atoi(arguments[0]));
  puts("ignored");
  return 0;
}

static int end_by_fault(void) {
  volatile int *nowhere = 0;
  *nowhere = 1;
  return 0;
}

static int end_by_privileged_instruction(void) {
  __asm__ volatile("hlt");
  return 0;
}

static int end_by_pipe(void) {
  int ends[2];
  if (pipe(ends)) return 1;
  close(ends[0]);
  return write(ends[1], "x", 1) == 1;
}

static int quick_exit_handlers(void) {
  fputs("not flushed", stdout);
  _exit(3);
}

static int forks(void) {
  int sum = 0;
  for (int i = 0; i < 10; i++) {
    pid_t pid = fork();
    if (!pid) _exit(i);
    sum += wait_for(pid);
  }
  printf("%d\n", sum);
  return 0;
}

static int grandchild(void) {
  int ends[2];
  char letter = 0;
  if (pipe(ends)) return 1;
  pid_t pid = fork();
  if (!pid) {
    if (!fork()) {
      usleep(20000); /* its parent has exited */
      _exit(write(ends[1], "g", 1) != 1);
    }
    _exit(0);
  }
  wait_for(pid);
  close(ends[1]);
  ssize_t n = read(ends[0], &letter, 1), more = read(ends[0], &letter, 1);
  printf("%zd %c %zd\n", n, letter, more);
  return 0;
}

static int killed_child(void) {
  pid_t pid = fork();
  if (!pid) {
    raise(SIGKILL);
    _exit(0);
  }
  printf("%d\n", wait_for(pid));
  return 0;
}

static int vfork_and_exec(void) {
  pid_t pid = vfork();
  if (!pid) {
    execl("/bin/sh", "sh", "-c", "echo child; exit 9", (char *)0);
    _exit(127);
  }
  printf("%d\n", wait_for(pid));
  return 0;
}

static int spawn(void) {
  char *command[] = {"/bin/sh", "-c", "echo spawned; exit 6", 0};
  pid_t pid = 0;
  if (posix_spawn(&pid, command[0], 0, 0, command, environ)) return 1;
  printf("%d\n", wait_for(pid));
  return system("exit 4") >> 8;
}

static int replace(void) {
  execl("/bin/sh", "sh", "-c", "echo replaced; kill -TERM $$", (char *)0);
  return 1;
}

static void *sum_up(void *number) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < 1000; i++) sum += i * (unsigned long)number;
  return (void *)sum;
}

static int threads(void) {
  pthread_t all[8];
  unsigned long sum = 0;
  void *one;
  for (long i = 0; i < 8; i++) pthread_create(&all[i], 0, sum_up, (void *)i);
  for (int i = 0; i < 8; i++) {
    pthread_join(all[i], &one);
    sum += (unsigned long)one;
  }
  printf("%lu\n", sum);
  return 0;
}

static void *leave(void *code) { exit((int)(long)code); }

static int exit_from_thread(void) {
  pthread_t thread;
  pthread_create(&thread, 0, leave, (void *)13L);
  pause();
  return 1;
}

static void *fork_in_thread(void *unused) {
  (void)unused;
  pid_t pid = fork();
  if (!pid) exit(5);
  return (void *)(long)wait_for(pid);
}

static int thread_forks(void) {
  pthread_t thread;
  void *code;
  pthread_create(&thread, 0, fork_in_thread, 0);
  pthread_join(thread, &code);
  printf("%ld\n", (long)code);
  return 0;
}

static void *end_later(void *unused) {
  usleep(50000);
  exit(7);
  return unused;
}

/* Of several processes, each of which has another one, the first thread ends at once. */
static int end_first_thread(void) {
  for (int i = 0; i < 8; i++) {
    pthread_t thread;
    int status = 0;
    if (!fork()) {
      pthread_create(&thread, 0, end_later, 0);
      pthread_exit(0);
    }
    wait(&status);
    if (status != 7 << 8) return 1;
  }
  return 0;
}

/* By the kernel's name for it. */
static int open_itself(void) {
  char own[4096] = "";
  struct stat file = {0}, opened = {0};
  if (readlink("/proc/self/exe", own, sizeof own - 1) < 0 || stat(own, &file)) return 1;
  return fstat(open("/proc/self/exe", O_RDONLY), &opened) || file.st_ino != opened.st_ino;
}

static int own_file(const char *path) {
  char text[16] = "";
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (write(fd, "precious", 8) != 8 || pread(fd, text, 8, 0) != 8) return 1;
  printf("it holds %s\n", text);
  return 0;
}

static int write_own(void) { return own_file(arguments[0]); }

static int close_all(void) {
  int out = dup(1);
  syscall(SYS_close_range, out + 1, ~0u, 0);
  return own_file(arguments[0]);
}

static int replace_all(void) {
  char buffer[5000];
  int fd = open(arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  memset(buffer, 'x', sizeof buffer);
  for (int i = 0; i < 200; i++)
    if (write(fd, buffer, sizeof buffer) != sizeof buffer) return 1;
  for (int other = 3; other < 900; other++)
    if (other != fd) dup2(fd, other);
  exit(0); /* with the exit handlers */
}

static int interrupt_parent(void) { return kill(getppid(), SIGINT); }

static int open_descriptors(void) {
  for (int fd = 0; fd < 200; fd++)
    if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
  puts("");
  return 0;
}

static int until_no_descriptor(void) {
  int n = 0;
  while (open("/dev/null", O_RDONLY) >= 0) n++;
  printf("%d %d\n", n, errno == EMFILE);
  return 0;
}

static int change_folder(void) {
  char where[4096];
  if (chdir(arguments[0])) return 1;
  puts(getcwd(where, sizeof where) ? where : "?");
  return own_file("here");
}

static int change_root(void) {
  char where[4096];
  if (chroot(arguments[0]) || chdir("/")) return 1;
  puts(getcwd(where, sizeof where) ? where : "?");
  return own_file("here");
}

static int drop_privileges(void) {
  gid_t none = 65534;
  if (setgroups(1, &none) || setresgid(none, none, none) || setresuid(none, none, none)) return 1;
  printf("%d %d\n", (int)getuid(), open("/etc/shadow", O_RDONLY) < 0);
  pid_t pid = fork();
  if (!pid) {
    execl("/usr/bin/id", "id", "-u", (char *)0);
    _exit(127);
  }
  return wait_for(pid);
}

static int file_size_limit(void) {
  struct rlimit limit = {8192, 8192};
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_IGN);
  char buffer[16384] = "";
  int fd = open(arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  ssize_t first = write(fd, buffer, sizeof buffer);
  ssize_t second = write(fd, buffer, 1);
  printf("%zd %zd %d\n", first, second, errno == EFBIG);
  return 0;
}

static int environment(void) {
  clearenv();
  printf("%d\n", getenv("PATH") == 0);
  return 0;
}

static int dispositions(void) {
  for (int number = 1; number < 32; number++) {
    struct sigaction action;
    sigset_t mask;
    sigaction(number, 0, &action);
    sigprocmask(SIG_BLOCK, 0, &mask);
    printf("%d:%d%d ", number, action.sa_handler == SIG_IGN, sigismember(&mask, number));
  }
  puts("");
  return 0;
}

static void show_child(void) {
  int status = 0;
  const pid_t child = fork();
  if (!child) _exit(3);
  const pid_t waited = wait(&status);
  printf("%d %d\n", waited == child, status);
}

/* Its reader goes on, as of a daemon's. */
static int close_output(void) {
  int ends[2];
  if (pipe(ends)) return 1;
  const pid_t child = fork();
  if (!child) {
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    close(1);
    pause();
  }
  close(ends[1]);
  struct pollfd reader = {ends[0], POLLIN, 0};
  puts(poll(&reader, 1, 5000) == 1 ? "closed" : "open");
  kill(child, SIGKILL);
  return wait_for(child);
}

static void do_nothing(int number) { (void)number; }

static int show_children(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  show_child();
  signal(SIGCHLD, SIG_IGN);
  show_child();
  execl("/no/such/program", "", NULL);
  show_child();
  signal(SIGCHLD, do_nothing);
  show_child();
  signal(SIGCHLD, SIG_DFL);
  show_child();
  return 0;
}

static int show_arguments(void) {
  for (; *arguments; arguments++) printf("[%s]", *arguments);
  puts("");
  return 0;
}

static int copy_input(void) {
  char buffer[4096];
  size_t n;
  while ((n = fread(buffer, 1, sizeof buffer, stdin))) fwrite(buffer, 1, n, stdout);
  return ferror(stdout) != 0;
}

static int groups(void) {
  printf("%d %d %d\n", getpgrp() == getppid(), getsid(0) == getsid(getppid()),
         getpgrp() == getpid());
  return 0;
}

static void handle(int number) { (void)number; }

static int handle_once(void) {
  /* As LLVM does: the default action is back when the handler runs. */
  struct sigaction action = {.sa_handler = handle, .sa_flags = (int)SA_RESETHAND};
  sigset_t stops, none;
  sigemptyset(&none);
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGQUIT);
  sigprocmask(SIG_BLOCK, &stops, 0);
  sigaction(SIGINT, &action, 0);
  sigaction(SIGQUIT, &action, 0);
  puts("ready");
  fflush(stdout);
  sigsuspend(&none);
  sigprocmask(SIG_SETMASK, &none, 0);
  usleep(300 * 1000); /* what the program still does then */
  puts("handled");
  return 0;
}

static int end_after_handler(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGSTKFLT, &action, 0);
  raise(SIGSTKFLT);
  raise(SIGSTKFLT);
  puts("went on");
  return 0;
}

static int count_signals(void) {
  /* Reports each signal; its own SIGALRM ends it. */
  sigset_t all;
  int count[65] = {0}, number;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, 0);
  puts("ready");
  fflush(stdout);
  alarm(20);
  for (;;) {
    siginfo_t info;
    struct timespec quiet = {0, 300 * 1000 * 1000};
    number = sigtimedwait(&all, &info, &quiet);
    if (number > 0 && number != SIGCHLD) count[number]++;
    int seen = 0;
    for (int i = 1; i < 65; i++) seen += count[i];
    if (number < 0 && seen) break;
    if (number == SIGALRM) break;
  }
  for (int i = 1; i < 65; i++)
    if (count[i]) printf("%d:%d ", i, count[i]);
  puts("");
  return 0;
}

static long descend(long frames) {
  volatile char frame[4000];
  frame[frames % 4000] = 1;
  return frames ? descend(frames - 1) + frame[0] : 0;
}

static int use_stack(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_STACK, &limit);
  printf("%ld\n", (long)limit.rlim_cur);
  fflush(stdout);
  descend(atol(arguments[0]) * 250); /* megabytes */
  puts("used");
  return 0;
}

static int raise_stack_limit(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_STACK, &limit);
  limit.rlim_cur = 40 << 20;
  if (setrlimit(RLIMIT_STACK, &limit)) return 1;
  return use_stack();
}

/* Without malloc, whose heap lies in the data segment. */
static long resident_pages(void) {
  char text[200] = "";
  int file = open("/proc/self/statm", O_RDONLY);
  ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  return size > 0 ? atol(strchr(text, ' ')) : -1;
}

static int use_data_segment(void) {
  enum { SIZE = 200 << 20, HALF = SIZE / 2 };
  struct rusage usage;
  long full, rest, left = 0;
  char *start = sbrk(SIZE);
  if (start == (void *)-1) return 1;
  memset(start, 1, SIZE);
  full = resident_pages();
  sbrk(-HALF);
  rest = resident_pages();
  sbrk(HALF);
  for (long i = 0; i < SIZE; i++) left += start[i];
  sbrk(-SIZE);
  printf("%d, %d MiB left\n", (full - rest) * sysconf(_SC_PAGESIZE) > HALF / 2, (int)(left >> 20));
  sbrk(1 << 30);
  sbrk(-(1 << 30)); /* never touched */
  getrusage(RUSAGE_SELF, &usage);
  printf("%d\n", usage.ru_maxrss > 700 << 10);
  return 0;
}

/* As a generator of code on the heap does that gives back what it no longer needs. */
static int give_back_code(void) {
  static const unsigned char one[] = {0xb8, 1, 0, 0, 0, 0xc3};
  static char buffer[64]; /* stdout's own would lie on the heap */
  const long page = sysconf(_SC_PAGESIZE);
  char *start = sbrk(4 * page);
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  char *code = start + 2 * page - (long)start % page;
  memcpy(code, one, sizeof one);
  mprotect(code, (size_t)page, PROT_READ | PROT_WRITE | PROT_EXEC);
  printf("%d\n", ((int (*)(void))(void *)code)());
  mprotect(code, (size_t)page, PROT_READ | PROT_WRITE);
  printf("%d\n", brk(start));
  return 0;
}

static void *division, *behind_division;

static void skip_division(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  printf("signal %d, %s\n", number, info->si_addr == division ? "there" : "elsewhere");
  if (registers[REG_RIP] != (greg_t)division) exit(1);
  registers[REG_RIP] = (greg_t)behind_division;
  registers[REG_RAX] = 42;
}

static int divide(void) {
  struct sigaction action = {.sa_sigaction = skip_division, .sa_flags = SA_SIGINFO};
  int zero = 0, result;
  sigaction(SIGFPE, &action, 0);
  for (int i = 0; i < 3; i++) {
    __asm__ volatile(
        "lea 1f(%%rip), %%rcx; mov %%rcx, %1; lea 2f(%%rip), %%rcx; mov %%rcx, %2\n"
        "mov $7, %%eax; cltd\n"
        "1: idivl %3; 2:"
        : "=&a"(result), "=m"(division), "=m"(behind_division)
        : "m"(zero)
        : "rcx", "rdx", "cc");
    printf("%d\n", result);
  }
  return 0;
}

static int second_mapping(void) {
  /* As runtimes do that generate code: what is executed is never writable. */
  unsigned char give[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov $0, %eax; ret */
  const size_t page = 4096;
  long sum = 0;
  int fd = memfd_create("code", 0);
  if (fd < 0 || ftruncate(fd, (off_t)page)) return 1;
  void *code = mmap(0, page, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  void *writable = mmap(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (code == MAP_FAILED || writable == MAP_FAILED) return 1;
  for (int i = 0; i < 100; i++) {
    give[1] = (unsigned char)i;
    memcpy(writable, give, sizeof give);
    for (int call = 0; call < 100; call++) sum += ((int (*)(void))code)();
  }
  printf("%ld\n", sum);
  return 0;
}

static int scattered_mappings(void) {
  /* Many, apart from each other, and a signal amid code that was there before. */
  const size_t page = 4096;
  unsigned char give[] = {0xb8, 0, 0, 0, 0, 0xc3};
  long sum = 0;
  int fd = memfd_create("code", 0);
  if (fd < 0 || ftruncate(fd, (off_t)page)) return 1;
  unsigned char *writable = mmap(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int i = 0; i < 200; i++) {
    void *apart = mmap(0, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *code = mmap(0, page, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (writable == MAP_FAILED || apart == MAP_FAILED || code == MAP_FAILED) return 1;
    give[1] = (unsigned char)i;
    memcpy(writable, give, sizeof give);
    sum += ((int (*)(void))code)();
  }
  printf("%ld\n", sum);
  return divide();
}

static char *lowest_of_stack;

static void say_where(int number, siginfo_t *info, void *context) {
  (void)context;
  printf("signal %d, page %ld\n", number, ((char *)info->si_addr - lowest_of_stack) >> 12);
  exit(3);
}

static int variables(void) {
  if (!arguments[0]) execl("/proc/self/exe", "matrix", "variables", "executed", (char *)0);
  for (char **variable = environ; *variable; variable++)
    if (!strchr(*variable, '=')) puts(*variable);
  return !arguments[0];
}

/* As Racket loads its code. */
static int read_code(void) {
  enum { PAGE = 4096 };
  static const unsigned char code[] = {0xb8, 1, 0, 0, 0, 0xc3, 0xb8, 2, 0, 0, 0, 0xc3};
  enum { SIZE = sizeof code / 2 };
  char *page =
      mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int (*generated)(void) = (int (*)(void))page, file = memfd_create("code", 0), sockets[2];
  if (page == MAP_FAILED || write(file, code, sizeof code) != sizeof code) return 1;
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) || write(sockets[0], code, SIZE) != SIZE ||
      write(sockets[0], code + SIZE, SIZE) != SIZE)
    return 2;
  memcpy(page, code + SIZE, SIZE);
  printf("%d ", generated());
  printf("%d ", (int)pread(file, page, SIZE, 0));
  printf("%d ", generated());
  printf("%d ", (int)pread(file, page + PAGE, SIZE, 0)); /* beside the code */
  lseek(file, SIZE, SEEK_SET);
  printf("%d ", (int)read(file, page, SIZE));
  printf("%d ", generated());
  printf("%d ", (int)recv(sockets[1], page, SIZE, 0)); /* a datagram cannot be read again */
  printf("%d ", generated());
  struct iovec vector = {page, SIZE};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  printf("%d ", (int)recvmsg(sockets[1], &message, 0));
  printf("%d ", generated());
  lseek(file, 0, SEEK_SET);
  printf("%d ", (int)readv(file, &vector, 1));
  printf("%d ", generated());
  printf("%d\n", (int)syscall(SYS_read, file, 8, 1l << 40));
  return 0;
}

static sigset_t every_signal, *blocked; /* while a thread waits for the ring */

static void *wait_for_ring(void *ring) {
  syscall(__NR_io_uring_enter, (int)(long)ring, 0, 1, IORING_ENTER_GETEVENTS, blocked, _NSIG / 8);
  return 0;
}

static int go_on_beside_ring(void) {
  struct io_uring_params parameters = {0};
  pthread_t thread;
  long ring = syscall(__NR_io_uring_setup, 1, &parameters);
  if (pthread_create(&thread, 0, wait_for_ring, (void *)ring)) return 1;
  usleep(100000);
  puts("goes on");
  return 0;
}

static int go_on_beside_masked_ring(void) {
  sigfillset(&every_signal);
  blocked = &every_signal;
  return go_on_beside_ring();
}

static volatile sig_atomic_t handled;

static void note_number(int number) { handled = number; }

static int queue_to_itself(void) {
  signal(SIGUSR1, note_number);
  signal(SIGUSR2, note_number);
  if (sigqueue(getpid(), SIGUSR1, (union sigval){0})) return 1;
  printf("%d", handled == SIGUSR1);
  if (pthread_sigqueue(pthread_self(), SIGUSR2, (union sigval){0})) return 1;
  printf(" %d\n", handled == SIGUSR2);
  return 0;
}

static char handlers_stack[1 << 16];
static jmp_buf out_of_handler;

static void tell_signal_stack(const char *when) {
  stack_t stack;
  int result = sigaltstack(0, &stack);
  printf("%s: %d, flags %d, ours %d, size %zu\n", when, result, stack.ss_flags,
         stack.ss_sp == handlers_stack, stack.ss_size);
}

static void jump_out(int number) {
  stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  (void)number;
  tell_signal_stack("in the handler");
  printf("another: %d\n", sigaltstack(&other, 0));
  longjmp(out_of_handler, 1);
}

static int leave_handler(void) {
  stack_t stack = {.ss_sp = handlers_stack, .ss_size = sizeof handlers_stack};
  struct sigaction action = {.sa_handler = jump_out, .sa_flags = SA_ONSTACK | SA_NODEFER};
  sigaltstack(&stack, 0);
  sigaction(SIGUSR1, &action, 0);
  tell_signal_stack("before");
  if (!setjmp(out_of_handler)) raise(SIGUSR1);
  tell_signal_stack("after");
  stack.ss_flags = SS_ONSTACK;
  sigaltstack(&stack, 0);
  tell_signal_stack("set again");
  return 0;
}

static int overflow_stack(void) {
  /* Language runtimes take only a fault just below the stack for an overflow. */
  static char other[1 << 16];
  stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
  struct sigaction action = {.sa_sigaction = say_where, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  pthread_attr_t thread;
  size_t size;
  pthread_getattr_np(pthread_self(), &thread);
  pthread_attr_getstack(&thread, (void **)&lowest_of_stack, &size);
  sigaltstack(&stack, 0);
  sigaction(SIGSEGV, &action, 0);
  return (int)descend(1l << 40);
}

static const struct {
  const char *name;
  int (*run)(void);
} cases[] = {
    {"code", end_with_code},
    {"signal", end_by_signal},
    {"fault", end_by_fault},
    {"leave-handler", leave_handler},
    {"privileged", end_by_privileged_instruction},
    {"pipe", end_by_pipe},
    {"_exit", quick_exit_handlers},
    {"forks", forks},
    {"grandchild", grandchild},
    {"killed-child", killed_child},
    {"vfork", vfork_and_exec},
    {"spawn", spawn},
    {"exec", replace},
    {"threads", threads},
    {"thread-exit", exit_from_thread},
    {"thread-forks", thread_forks},
    {"first-thread", end_first_thread},
    {"itself", open_itself},
    {"own-file", write_own},
    {"close-all", close_all},
    {"replace-all", replace_all},
    {"open-descriptors", open_descriptors},
    {"no-descriptor", until_no_descriptor},
    {"folder", change_folder},
    {"root", change_root},
    {"privileges", drop_privileges},
    {"file-size", file_size_limit},
    {"second-mapping", second_mapping},
    {"scattered-mappings", scattered_mappings},
    {"division", divide},
    {"stack", use_stack},
    {"stack-limit", raise_stack_limit},
    {"stack-overflow", overflow_stack},
    {"data-segment", use_data_segment},
    {"code-on-heap", give_back_code},
    {"variables", variables},
    {"read-code", read_code},
    {"ring", go_on_beside_ring},
    {"masked-ring", go_on_beside_masked_ring},
    {"queue", queue_to_itself},
    {"environment", environment},
    {"dispositions", dispositions},
    {"children", show_children},
    {"closes-output", close_output},
    {"arguments", show_arguments},
    {"copy", copy_input},
    {"groups", groups},
    {"count", count_signals},
    {"handle-once", handle_once},
    {"end-after-handler", end_after_handler},
    {"interrupt-parent", interrupt_parent},
};

int main(int argc, char **argv) {
  arguments = argv + 2;
  for (unsigned i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(argv[1], cases[i].name)) return cases[i].run();
  return 99;
}
