/* SPDX-License-Identifier: Apache-2.0 */
/* What a process in the background does with its terminal, where it blocks or ignores SIGTTOU and
 * SIGTTIN, or neither: terminal blocked|ignored|default|spawned. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

extern char **environ;

static int terminal; /* of the session that we lead */

static void lead_a_session(void) {
  const int other_end = posix_openpt(O_RDWR | O_NOCTTY);
  struct termios t;
  if (grantpt(other_end) || unlockpt(other_end)) exit(3);
  if (fork()) { /* one that leads no group can lead a session */
    int status;
    wait(&status);
    exit(WEXITSTATUS(status));
  }
  setsid();
  terminal = open(ptsname(other_end), O_RDWR);
  if (terminal < 0 || tcgetattr(terminal, &t)) exit(4);
  t.c_lflag |= TOSTOP;
  tcsetattr(terminal, TCSANOW, &t);
}

static void refuse(const char *how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTTOU);
  sigaddset(&set, SIGTTIN);
  if (!strcmp(how, "blocked")) sigprocmask(SIG_BLOCK, &set, NULL);
  if (strcmp(how, "ignored") != 0) return;
  signal(SIGTTOU, SIG_IGN);
  signal(SIGTTIN, SIG_IGN);
}

static void show(const char *what, long result) {
  const int error = errno;
  printf("%s: %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerror(error) : "");
  fflush(stdout);
}

static void in_the_background(void) {
  struct termios t;
  struct winsize size = {24, 80, 0, 0};
  sigset_t pending;
  char c;
  show("read", read(terminal, &c, 1));
  show("write", write(terminal, "x", 1));
  show("tcgetattr", tcgetattr(terminal, &t));
  show("tcsetattr", tcsetattr(terminal, TCSADRAIN, &t));
  show("tcflush", tcflush(terminal, TCIFLUSH));
  show("size", ioctl(terminal, TIOCSWINSZ, &size));
  show("tcsetpgrp", tcsetpgrp(terminal, getpid()));
  show("in the foreground", tcgetpgrp(terminal) == getpid());
  show("write", write(terminal, "x", 1));
  sigpending(&pending);
  show("pending", sigismember(&pending, SIGTTOU) + sigismember(&pending, SIGTTIN));
  exit(5);
}

static int child_of(const char *how) {
  const pid_t child = fork();
  if (child) return child;
  setpgid(0, 0);
  refuse(how);
  in_the_background();
  return 0;
}

static int spawned(void) {
  pid_t child = 0;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  char *const line[] = {"true", NULL};
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_addtcsetpgrp_np(&actions, terminal);
  show("spawned", posix_spawnp(&child, "true", &actions, &attributes, line, environ));
  return child;
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "blocked";
  int status = 0;
  lead_a_session();
  const pid_t child = strcmp(how, "spawned") ? child_of(how) : spawned();
  if (waitpid(child, &status, WUNTRACED) != child) return 6;
  if (WIFSTOPPED(status)) {
    printf("stopped by %d\n", WSTOPSIG(status));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  printf("ended %x\n", (unsigned)status);
  return WIFEXITED(status) ? 0 : 1;
}
