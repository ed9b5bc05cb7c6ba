/* SPDX-License-Identifier: Apache-2.0 */
/* A program of many small functions (many.h, generated) that does what kept translations must
 * withstand: its argument says what. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "many.h"

enum { PAGE = 4096, READ_WRITE_EXECUTE = 7 };

/* A function that begins at the end of one page and goes on in the next. */
int cross(void);
extern unsigned char second[];
__asm__(
    ".text\n"
    ".p2align 12\n"
    ".skip 4096 - 6\n"
    ".globl cross, second\n"
    "cross: xor %ecx, %ecx\n"
    "nop; nop; nop; nop\n"
    "second: mov $7, %eax\n"
    "ret\n"
    ".p2align 12\n");

/* One that has a page to itself. */
typedef int function(void);
function inside;
__asm__(
    ".text\n"
    ".p2align 12\n"
    ".globl inside\n"
    "inside: mov $7, %eax\n"
    "ret\n"
    ".p2align 12\n");

/* How many calls gave what the code did before it was changed. */
static int changes(unsigned char *code, function *runs) {
  int wrong = 0;
  for (int i = 7; i < 20; i++) {
    code[1] = (unsigned char)i;
    wrong += runs() != i;
  }
  return wrong;
}

static int stale(void) {
  if (mprotect(second, PAGE, READ_WRITE_EXECUTE)) return -1;
  return changes(second, cross);
}

static int patched(void) {
  int wrong = inside() != 7;
  if (mprotect((void *)inside, PAGE, READ_WRITE_EXECUTE)) return -1;
  return wrong + changes((unsigned char *)inside, inside);
}

/* As runtimes do that never let memory be written to and executed. */
static int twice(void) {
  int file = memfd_create("code", 0);
  if (ftruncate(file, PAGE)) return -1;
  void *runs = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
  void *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (runs == MAP_FAILED || code == MAP_FAILED) return -1;
  memcpy(code, (void *)inside, PAGE);
  return changes(code, (function *)runs);
}

static volatile int faults;

static void repair(int signal, siginfo_t *fault, void *context) {
  void *page = (void *)((uintptr_t)fault->si_addr & ~(uintptr_t)(PAGE - 1));
  (void)signal, (void)context;
  if (++faults > PAGE || mprotect(page, PAGE, PROT_READ | PROT_WRITE)) _exit(1);
}

/* As garbage collectors do: each page is written to once it has faulted. */
static int repaired(void) {
  enum { PAGES = 100 };
  struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
  int wrong = 0;
  char *pages = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || sigaction(SIGSEGV, &action, NULL)) return -1;
  for (int i = 0; i < PAGES; i++) pages[i * PAGE] = (char)i;
  for (int i = 0; i < PAGES; i++) wrong += pages[i * PAGE] != i;
  return wrong + (faults != PAGES);
}

/* Memory at a low fixed address, as of an emulated machine. */
static int fixed(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  void *low = (void *)0x10000000ul;
  return mmap(low, 1u << 30, PROT_READ | PROT_WRITE, flags, -1, 0) == low ? 0 : -1;
}

/* Calls that a writer of files makes end the program from now on. */
static int filter(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rename, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_utimensat, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_chmod, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Damages the files named, which this process may have read. */
static int cut(int n, char **files) {
  for (int i = 0; i < n; i++)
    if (truncate(files[i], PAGE)) return -1;
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int result = 0;
  if (!strcmp(what, "stale")) result = stale();
  if (!strcmp(what, "patched")) result = patched();
  if (!strcmp(what, "twice")) result = twice();
  if (!strcmp(what, "repaired")) result = repaired();
  if (!strcmp(what, "fixed")) result = fixed();
  if (!strcmp(what, "filter")) result = filter();
  if (!strcmp(what, "cut")) result = cut(argc - 2, argv + 2);
  if (!strcmp(what, "umask")) umask(0777);
  if (!strcmp(what, "")) result = cross() != 7;
  printf("%d %u\n", result, many(1));
  return 0;
}
