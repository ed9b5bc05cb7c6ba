/* SPDX-License-Identifier: Apache-2.0 */
/* One behaviour per case: `cpu_cases CASE`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/valgrind.h>

#include "cpu_device.h"
#include "cpu_spin.h"

static uint32_t kernel;

static void *spin_in_thread(void *rounds) {
  spin((long)rounds);
  return 0;
}

static void run_thread(long rounds) {
  pthread_t thread;
  pthread_create(&thread, 0, spin_in_thread, (void *)rounds);
  pthread_join(thread, 0);
}

/* Inside the device runtime only callbacks count; its threads never count. */
static int api(void) {
  spin(100);
  xpu_api_enter();
  spin(7000);
  run_thread(9000);
  xpu_api_enter();
  spin(7000);
  xpu_api_leave();
  xpu_callback_enter();
  spin(20);
  run_thread(3);
  xpu_api_enter();
  spin(7000);
  xpu_api_leave();
  xpu_callback_leave();
  spin(7000);
  xpu_api_leave();
  spin(400);
  run_thread(5000);
  device_launch(kernel);
  return 0;
}

/* A thousand short threads, one after the other, across two slices. */
static int short_threads(void) {
  for (int i = 0; i < 600; i++) run_thread(10 + i);
  device_launch(kernel);
  for (int i = 600; i < 1000; i++) run_thread(10 + i);
  return 0;
}

/* Code outside any file: mov $5,%eax; dec %eax; jnz -2; ret. */
static int generated(void) {
  static const unsigned char code[] = {0xb8, 5, 0, 0, 0, 0xff, 0xc8, 0x75, 0xfc, 0xc3};
  unsigned char *page =
      mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code, sizeof code);
  for (int i = 0; i < 50; i++) ((void (*)(void))page)();
  device_launch(kernel);
  return 0;
}

static int wait_for(pid_t child) {
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int forks(int child_uses_device) {
  spin(100);
  device_launch(kernel);
  pid_t child = fork();
  spin(child ? 20 : 3);
  if (!child) {
    if (child_uses_device) {
      device_launch(device_start());
      spin(5);
    }
    exit(4);
  }
  int status = wait_for(child);
  device_launch(kernel);
  return status;
}

/* Finishes two slices, says so, and waits to be killed. */
static int killed(void) {
  for (int s = 1; s <= 2; s++) {
    spin(100 * s);
    device_launch(kernel);
  }
  spin(7);
  puts("ready");
  fflush(stdout);
  pause();
  return 0;
}

static void on_signal(int number) {
  spin(11);
  printf("signal %d\n", number);
}

static int handler(void) {
  signal(SIGTERM, on_signal);
  raise(SIGTERM);
  spin(30);
  device_launch(kernel);
  return 17;
}

/* Programs that detect whether a tool runs them, started by the device runtime. */
static int runtime_children(void) {
  char look[] = "grep -qi dynamorio /proc/self/maps /proc/$$/maps && echo tool || echo native";
  char *arguments[] = {"sh", "-c", look, 0};
  pid_t child;
  xpu_api_enter();
  if (!(child = fork())) {
    execv("/bin/sh", arguments);
    _exit(9);
  }
  int status = wait_for(child);
  if (posix_spawn(&child, "/bin/sh", 0, 0, arguments, environ)) return 8;
  status |= wait_for(child);
  xpu_api_leave();
  spin(8);
  device_launch(kernel);
  return status;
}

static int on_valgrind(void) { return RUNNING_ON_VALGRIND ? 5 : 6; }

static int isa(void) {
  printf("fma %d avx2 %d avx %d\n", !!__builtin_cpu_supports("fma"),
         !!__builtin_cpu_supports("avx2"), !!__builtin_cpu_supports("avx"));
  return 0;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  if (!strcmp(name, "isa")) return isa();
  if (!strcmp(name, "on-valgrind")) return on_valgrind();
  if (!strcmp(name, "no-device")) return spin(1234), 0;
  kernel = device_start();
  if (!strcmp(name, "api")) return api();
  if (!strcmp(name, "short-threads")) return short_threads();
  if (!strcmp(name, "generated")) return generated();
  if (!strcmp(name, "fork")) return forks(0);
  if (!strcmp(name, "fork-device")) return forks(1);
  if (!strcmp(name, "killed")) return killed();
  if (!strcmp(name, "handler")) return handler();
  if (!strcmp(name, "runtime-children")) return runtime_children();
  return 2;
}
