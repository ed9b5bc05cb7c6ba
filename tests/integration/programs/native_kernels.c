/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose results, faults and signals show whether they run as they do natively. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "opencl_set_up.h"

enum { ITEMS = 4096, DEEP = 1 << 20, STORM = 4000 };

static const char *const KERNELS =
    "kernel void numbers(global float *out, global double *wide) {\n"
    "  size_t i = get_global_id(0);\n"
    "  float x = (float)i * 0.37f + 0.01f;\n"
    "  out[i] = fma(x, sin(x), exp(-x * 1e-3f)) + rsqrt(x) + pow(x, 0.3f) * 1e-38f * 1e-3f;\n"
    "  wide[i] = log((double)x) * cos((double)x) + x * 1e-310;\n"
    "}\n"
    "kernel void chain(global double16 *out) {\n"
    "  double16 x[12];\n"
    "  for (int k = 0; k < 12; k++) x[k] = out[get_global_id(0)] + k;\n"
    "  for (int n = 0; n < 1000; n++) {\n"
    "#pragma unroll\n"
    "    for (int k = 0; k < 12; k++) x[k] = fma(x[k], 0.99, x[(k + 1) % 12] * 1e-3);\n"
    "  }\n"
    "  for (int k = 1; k < 12; k++) x[0] += x[k];\n"
    "  out[get_global_id(0)] = x[0];\n"
    "}\n"
    "kernel void tiny(global float *out) {\n"
    "  size_t i = get_global_id(0);\n"
    "  out[i] = out[i] * 0.5f;\n"
    "}\n"
    "kernel void touch(global int *before, ulong address) {\n"
    "  before[0]++;\n"
    "  *(volatile global int *)address = 7;\n"
    "  before[1]++;\n"
    "}\n"
    "kernel void wait_for(volatile global int *flag) {\n"
    "  volatile int own[4096];\n" /* on the stack, where handlers' frames lie, too */
    "  int sum = 0;\n"
    "  for (int i = 0; i < 4096; i++) own[i] = i;\n"
    "  while (flag[0] == 0);\n"
    "  for (int i = 0; i < 4096; i++) sum += own[i];\n"
    "  flag[1] = sum == 4096 * 4095 / 2;\n"
    "}\n"
    "kernel void deep(global int *out, int n) {\n"
    "  volatile int own[1 << 20];\n"
    "  for (int i = 0; i < n; i++) own[i] = i;\n"
    "  int sum = 0;\n"
    "  for (int i = 0; i < n; i += 4096) sum += own[i];\n"
    "  out[get_global_id(0)] = sum;\n"
    "}\n";

static volatile int *flag; /* shared with the device */
static char *page;
static volatile sig_atomic_t signals;

static void argument(cl_kernel kernel, cl_uint at, size_t size, const void *value) {
  must(clSetKernelArg(kernel, at, size, value), "argument");
}

static cl_mem buffer(size_t size, void *host) {
  cl_int error;
  cl_mem made = clCreateBuffer(context, host ? CL_MEM_USE_HOST_PTR : 0, size, host, &error);
  must(error, "buffer");
  return made;
}

static void read_back(cl_mem from, size_t size, void *to) {
  must(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, size, to, 0, NULL, NULL), "read");
}

static void show_hash(const char *title, const void *data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
  printf("%s %016llx\n", title, (unsigned long long)hash);
}

static void show_numbers(const char *options) {
  static float single[ITEMS];
  static double wide[ITEMS];
  cl_program from = build(KERNELS, options);
  cl_kernel kernel = kernel_of(from, "numbers");
  cl_mem a = buffer(sizeof single, NULL), b = buffer(sizeof wide, NULL);
  argument(kernel, 0, sizeof a, &a);
  argument(kernel, 1, sizeof b, &b);
  must(run_1d(queue, kernel, ITEMS, 64), "run");
  read_back(a, sizeof single, single);
  read_back(b, sizeof wide, wide);
  show_hash(options, single, sizeof single);
  show_hash(options, wide, sizeof wide);
}

/* Results that are subnormal numbers, unless the device flushes these to zero. */
static void show_tiny(const char *options) {
  static float single[ITEMS];
  for (int i = 0; i < ITEMS; i++) single[i] = 1.5e-38f + (float)i * 1e-41f;
  cl_mem a = buffer(sizeof single, NULL);
  must(clEnqueueWriteBuffer(queue, a, CL_TRUE, 0, sizeof single, single, 0, NULL, NULL), "write");
  cl_kernel kernel = kernel_of(build(KERNELS, options), "tiny");
  argument(kernel, 0, sizeof a, &a);
  must(run_1d(queue, kernel, ITEMS, 64), "run");
  read_back(a, sizeof single, single);
  show_hash("tiny", single, sizeof single);
}

static void tiny(void) {
  show_tiny("");
  show_tiny("-cl-denorms-are-zero");
}

static void results(void) {
  char name[256];
  must(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "name");
  puts(name);
  show_numbers("");
  show_numbers("-cl-denorms-are-zero");
  tiny();
}

static cl_kernel flag_kernel(void) {
  flag = aligned_alloc(4096, 4096);
  flag[0] = flag[1] = 0;
  cl_mem shared = buffer(4096, (void *)flag);
  cl_kernel kernel = kernel_of(build(KERNELS, ""), "wait_for");
  argument(kernel, 0, sizeof shared, &shared);
  return kernel;
}

/* The host sets the flag that a running kernel waits for, several times over. */
static void meets(void) {
  cl_kernel kernel = flag_kernel();
  for (int i = 0; i < 5; i++) {
    flag[0] = 0;
    must(run_1d(queue, kernel, 1, 1), "run");
    clFlush(queue);
    usleep(2000);
    __atomic_store_n(&flag[0], 1, __ATOMIC_SEQ_CST);
    must(clFinish(queue), "finish");
  }
  printf("met %d\n", flag[1]);
}

static void on_alarm(int signal) {
  (void)signal;
  if (++signals == 3) __atomic_store_n(&flag[0], 1, __ATOMIC_SEQ_CST);
}

/* The third alarm sets the flag. */
static void alarms(void) {
  struct itimerval every = {{0, 20000}, {0, 20000}};
  cl_kernel kernel = flag_kernel();
  signal(SIGALRM, on_alarm);
  setitimer(ITIMER_REAL, &every, NULL);
  must(run_1d(queue, kernel, 1, 1), "run");
  must(clFinish(queue), "finish");
  printf("met %d\n", flag[1]);
}

static volatile sig_atomic_t sum; /* of the signals' values */
static volatile int sent;

static void on_queued(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  signals++;
  sum += info->si_value.sival_int;
}

static void *send_signals(void *to) {
  for (int i = 1; i <= STORM; i++) {
    const union sigval value = {.sival_int = i};
    while (pthread_sigqueue(*(pthread_t *)to, SIGRTMIN, value) == EAGAIN) usleep(100);
    if (i % 8 == 0) usleep(20);
  }
  sent = 1;
  return NULL;
}

/* Does it while another thread sends signals to this one. */
static void in_storm(void (*work)(void)) {
  struct sigaction act = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGRTMIN, &act, NULL);
  pthread_t self = pthread_self(), sender;
  pthread_create(&sender, NULL, send_signals, &self);
  for (int i = 0; i < 20 || !sent; i++) work();
  pthread_join(sender, NULL);
}

static cl_kernel small;

static void launch_small(void) {
  must(run_1d(queue, small, ITEMS, 1), "run");
  must(clFinish(queue), "finish");
}

/* Signals that are queued reach a thread whose small kernels follow one another: all of them,
 * wherever they find it. */
static void storm(void) {
  static float single[ITEMS];
  cl_mem a = buffer(sizeof single, NULL);
  small = kernel_of(build(KERNELS, ""), "tiny");
  argument(small, 0, sizeof a, &a);
  for (int i = 0; i < ITEMS; i++) single[i] = (float)i;
  must(clEnqueueWriteBuffer(queue, a, CL_TRUE, 0, sizeof single, single, 0, NULL, NULL), "write");
  launch_small(); /* it is compiled */
  in_storm(launch_small);
  for (int i = 0; i < 1000 && signals < STORM; i++) usleep(10000);
  read_back(a, sizeof single, single);
  printf("signals %d, sum %d; %g\n", signals, sum, (double)single[0]);
}

static cl_kernel chain_kernel;
static double begins[ITEMS], ends[ITEMS];
static cl_mem chained;
static int others;

static void chain(double *result) {
  enum { WIDTH = 16 };
  must(clEnqueueWriteBuffer(queue, chained, CL_TRUE, 0, sizeof begins, begins, 0, NULL, NULL),
       "write");
  must(run_1d(queue, chain_kernel, ITEMS / WIDTH, 1), "run");
  read_back(chained, sizeof begins, result);
}

static void compare_chain(void) {
  static double now[ITEMS];
  chain(now);
  others += memcmp(now, ends, sizeof now) != 0;
}

/* Signals interrupt computations in vector registers: their results stay as they were. */
static void computes(void) {
  for (int i = 0; i < ITEMS; i++) begins[i] = i;
  chained = buffer(sizeof begins, NULL);
  chain_kernel = kernel_of(build(KERNELS, ""), "chain");
  argument(chain_kernel, 0, sizeof chained, &chained);
  chain(ends);
  in_storm(compare_chain);
  printf("%g, other results %d\n", ends[ITEMS - 1], others);
}

/* The process ends while its kernel runs. */
static void exits(void) {
  must(run_1d(queue, flag_kernel(), 1, 1), "run");
  clFlush(queue);
  usleep(50000);
  _exit(5);
}

/* Likewise, by a signal that nobody can handle. */
static void killed(void) {
  must(run_1d(queue, flag_kernel(), 1, 1), "run");
  clFlush(queue);
  usleep(50000);
  kill(getpid(), SIGKILL);
}

/* A child is made meanwhile. */
static void forks(void) {
  int status = 0;
  must(run_1d(queue, flag_kernel(), 1, 1), "run");
  clFlush(queue);
  usleep(50000);
  pid_t child = fork();
  if (!child) _exit(7);
  waitpid(child, &status, 0);
  __atomic_store_n(&flag[0], 1, __ATOMIC_SEQ_CST);
  must(clFinish(queue), "finish");
  printf("met %d, child %d\n", flag[1], WEXITSTATUS(status));
}

/* Programs are started between launches. */
static void starts(void) {
  cl_kernel kernel = flag_kernel();
  flag[0] = 1;
  for (int i = 0; i < 3; i++) {
    if (system("true")) puts("failed");
    must(run_1d(queue, kernel, 1, 1), "run");
    must(clFinish(queue), "finish");
  }
  printf("met %d\n", flag[1]);
}

static void interrupted(void) {
  cl_kernel kernel = flag_kernel();
  flag[0] = 1; /* it does not wait, and is compiled */
  must(run_1d(queue, kernel, 1, 1), "run");
  must(clFinish(queue), "finish");
  flag[0] = 0;
  alarm(1); /* its default: it ends the process */
  must(run_1d(queue, kernel, 1, 1), "run");
  clFinish(queue);
}

static void repair(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  signals++;
  if (info->si_addr != page || mprotect(page, 4096, PROT_READ | PROT_WRITE)) _exit(4);
}

static void touch(void) {
  int counts[2] = {0, 0};
  cl_ulong address = (uintptr_t)page;
  cl_mem before = buffer(sizeof counts, counts);
  cl_kernel kernel = kernel_of(build(KERNELS, ""), "touch");
  argument(kernel, 0, sizeof before, &before);
  argument(kernel, 1, sizeof address, &address);
  must(run_1d(queue, kernel, 1, 1), "run");
  read_back(before, sizeof counts, counts);
  printf("counts %d %d, stored %d, faults %d\n", counts[0], counts[1], *(int *)page, (int)signals);
}

static void faults(void) {
  page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  touch();
}

/* The program's handler repairs what the kernel faulted on: the kernel continues there. */
static void repairs(void) {
  struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  faults();
}

static void deep(void) {
  int sums[4], n = DEEP;
  cl_mem out = buffer(sizeof sums, NULL);
  cl_kernel kernel = kernel_of(build(KERNELS, ""), "deep");
  argument(kernel, 0, sizeof out, &out);
  argument(kernel, 1, sizeof n, &n);
  must(run_1d(queue, kernel, 4, 1), "run");
  read_back(out, sizeof sums, sums);
  printf("sums %d %d\n", sums[0], sums[3]);
}

int main(int argc, char **argv) {
  static const struct one_case cases[] = {
      {"results", results}, {"tiny", tiny},         {"meets", meets},
      {"alarms", alarms},   {"exits", exits},       {"faults", faults},
      {"repairs", repairs}, {"deep", deep},         {"interrupted", interrupted},
      {"storm", storm},     {"computes", computes}, {"starts", starts},
      {"killed", killed},   {"forks", forks}};
  return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
