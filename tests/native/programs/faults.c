/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one call of our code fail. Preloaded into
 * - the program under test, as its libxpuprof_rt.so: calls of our libraries are counted, and system
 *   calls of the runtime (failing_system_call.h);
 * - the launcher, which calls faults_arm(): calls that touch the run directory, and those that make
 *   processes, pipes and sockets.
 * In the program whose name is FAULT_IN, call number FAULT_AT gives the error FAULT_ERROR, or, if
 * that is 0, transfers a single byte. Calls by name go to the file FAULT_LOG. */
#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SHORT = -1, LONGEST = 4096, LONGEST_LOG = 1 << 16 };

static struct {
  int process, at, error, calls;
  char below[LONGEST]; /* launcher: the run directory */
  char ours[1024];     /* launcher: descriptors in it */
  char log[LONGEST_LOG];
  size_t logged;
} plan;

__attribute__((constructor)) static void read_plan(void) {
  const char *name = getenv("FAULT_IN"), *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERROR");
  if (!name || !at || !error || strcmp(name, program_invocation_short_name)) return;
  plan.at = atoi(at);
  plan.error = atoi(error) ? atoi(error) : SHORT;
  plan.process = getpid();
}

void faults_arm(int at, int error, const char *below) {
  memset(&plan, 0, sizeof plan);
  plan.at = at;
  plan.error = error ? error : SHORT;
  snprintf(plan.below, sizeof plan.below, "%s", below);
  plan.process = getpid();
}

void faults_report(const char *path) {
  int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd >= 0) syscall(SYS_write, fd, plan.log, plan.logged);
  if (fd >= 0) syscall(SYS_close, fd);
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("FAULT_LOG");
  if (path && plan.process == getpid() && !*plan.below) faults_report(path);
}

int faults_next(const char *name) {
  if (!plan.process || plan.process != (int)syscall(SYS_getpid)) return 0;
  int call = __atomic_add_fetch(&plan.calls, 1, __ATOMIC_RELAXED);
  if (plan.logged + strlen(name) + 1 < sizeof plan.log)
    plan.logged += sprintf(plan.log + plan.logged, "%s\n", name);
  return call == plan.at ? plan.error : 0;
}

/* ---- calls through the C library ------------------------------------------------------------- */

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALLER __builtin_return_address(0)

static int is_launcher(void) { return *plan.below; }

static int from_us(void *caller) {
  Dl_info info;
  return plan.process && !is_launcher() && dladdr(caller, &info) && info.dli_fname &&
         strstr(info.dli_fname, "xpuprof");
}

static int is_below(const char *path) {
  return is_launcher() && path && !strncmp(path, plan.below, strlen(plan.below));
}

static int is_ours(int fd) { return fd >= 0 && fd < (int)sizeof plan.ours && plan.ours[fd]; }

/* Whether a call that `counts` fails; a short transfer is no failure. */
static int fails(int counts, const char *name) {
  int error = counts ? faults_next(name) : 0;
  if (error > 0) errno = error;
  return error > 0;
}

static size_t shortened(int counts, const char *name, size_t size, int *failed) {
  int error = counts ? faults_next(name) : 0;
  *failed = error > 0;
  if (error > 0) errno = error;
  return error == SHORT && size > 1 ? 1 : size;
}

static int opened(const char *path, int flags, mode_t mode, void *caller) {
  int written = (flags & (O_WRONLY | O_RDWR)) != 0 && is_below(path);
  if (fails(written || from_us(caller), "open")) return -1;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  if (fd >= 0 && fd < (int)sizeof plan.ours) plan.ours[fd] = (char)written;
  return fd;
}

static mode_t mode_of(int flags, va_list more) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define OPEN(name)                             \
  int name(const char *path, int flags, ...) { \
    va_list more;                              \
    va_start(more, flags);                     \
    mode_t mode = mode_of(flags, more);        \
    va_end(more);                              \
    return opened(path, flags, mode, CALLER);  \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t size) {
  int failed;
  size = shortened(is_ours(fd) || from_us(CALLER), "write", size, &failed);
  return failed ? -1 : syscall(SYS_write, fd, data, size);
}

ssize_t read(int fd, void *data, size_t size) {
  int failed;
  size = shortened(from_us(CALLER), "read", size, &failed);
  return failed ? -1 : syscall(SYS_read, fd, data, size);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
  int failed;
  size = shortened(from_us(CALLER), "send", size, &failed);
  return failed ? -1 : syscall(SYS_sendto, fd, data, size, flags, 0, 0);
}

ssize_t recv(int fd, void *data, size_t size, int flags) {
  int failed;
  size = shortened(from_us(CALLER), "recv", size, &failed);
  return failed ? -1 : syscall(SYS_recvfrom, fd, data, size, flags, 0, 0);
}

#define CALL(result, name, counts, parameters, arguments) \
  result name parameters { return fails(counts, #name) ? (result)-1 : NEXT(name) arguments; }

CALL(int, socket, is_launcher() || from_us(CALLER), (int domain, int type, int protocol),
     (domain, type, protocol))
CALL(int, bind, is_launcher() || from_us(CALLER),
     (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
CALL(int, connect, from_us(CALLER), (int fd, const struct sockaddr *address, socklen_t size),
     (fd, address, size))
CALL(int, setsockopt, from_us(CALLER),
     (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size))
CALL(int, shutdown, from_us(CALLER), (int fd, int how), (fd, how))
CALL(void *, mmap, from_us(CALLER),
     (void *address, size_t size, int protection, int flags, int fd, off_t offset),
     (address, size, protection, flags, fd, offset))
CALL(void *, mmap64, from_us(CALLER),
     (void *address, size_t size, int protection, int flags, int fd, off64_t offset),
     (address, size, protection, flags, fd, offset))
CALL(int, pipe2, is_launcher(), (int ends[2], int flags), (ends, flags))
CALL(pid_t, fork, is_launcher(), (void), ())
CALL(int, fsync, is_ours(fd), (int fd), (fd))
CALL(int, ftruncate64, is_ours(fd), (int fd, off64_t size), (fd, size))
CALL(int, mkdir, is_below(path), (const char *path, mode_t mode), (path, mode))
CALL(int, rmdir, is_below(path), (const char *path), (path))
CALL(int, unlink, is_below(path), (const char *path), (path))
CALL(int, rename, is_below(to), (const char *from, const char *to), (from, to))
CALL(int, link, is_below(to), (const char *from, const char *to), (from, to))
CALL(int, chmod, is_below(path), (const char *path, mode_t mode), (path, mode))

int posix_fallocate64(int fd, off64_t offset, off64_t size) {
  return fails(is_ours(fd), "posix_fallocate64") ? errno
                                                 : NEXT(posix_fallocate64)(fd, offset, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
  return fails(is_launcher() || from_us(CALLER), "pthread_create")
             ? EAGAIN
             : NEXT(pthread_create)(thread, attributes, start, argument);
}
